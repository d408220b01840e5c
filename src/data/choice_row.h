// choice_row.h: a question with several completions, as samples.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/batch.h"
#include "tokenizer/tokenizer.h"

namespace windlass {

// A question with its candidate answers; `right`: the index of the true one.
struct ChoiceRow {
    std::vector<Sample> candidates;  // prompt and candidate, the candidate trained
    int64_t right = 0;
};

// The sample of a prompt with one completion: the tokenizer's prefix, prompt, completion; no EOS. A prompt that is too
// long loses its beginning. Throws UserError(data) naming `where` for a completion that leaves no room for it.
Sample completion_sample(const Tokenizer& tokenizer, const std::string& prompt, const std::string& completion,
                         int64_t max_length, std::string_view where = "choices");

}  // namespace windlass
