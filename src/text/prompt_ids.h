// prompt_ids.h: the tokens that a continuation begins behind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace windlass {

// The tokenizer's prefix and the prompt's tokens; at least one. UserError(usage) naming `where` for a prompt of none.
std::vector<int32_t> prompt_ids(const Tokenizer& tokenizer, const std::string& text, std::string_view where);

}  // namespace windlass
