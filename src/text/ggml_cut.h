// ggml_cut.h: llama.cpp's name for the way in which a byte-level tokenizer cuts texts (tokenizer.ggml.pre).
//
// llama.cpp has the patterns compiled in and knows each by a name; a file holds the name. So a tokenizer can be written
// where its steps are exactly those of a name, and is refused elsewhere: an almost right name gives wrong tokens
// without a word.
#pragma once

#include <string>
#include <string_view>

#include "text/parts.h"

namespace windlass {

// UserError(model) naming `where` and the steps that have no name.
std::string ggml_cut_name(const TokenizerParts& parts, std::string_view where);

}  // namespace windlass
