// prompt_ids.h: the tokens that a continuation begins after.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "rows/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace windlass {

// The tokenizer's prefix and the prompt's tokens; at least one. UserError(usage) naming `where` for a prompt of none.
std::vector<int32_t> prompt_ids(const Tokenizer& tokenizer, const std::string& text, std::string_view where);

// The text that asks for an answer to these messages. UserError(data) with what the template says of them.
std::vector<int32_t> chat_prompt_ids(const ChatFormat& format, const Json& messages);
// The same of a question that nothing was said before.
std::vector<int32_t> question_ids(const ChatFormat& format, const std::string& question);

}  // namespace windlass
