// ggml_cut.h: llama.cpp's name for the way in which a byte-level tokenizer cuts texts (tokenizer.ggml.pre).
//
// llama.cpp has the patterns compiled in and knows each by a name; a file holds the name. So a tokenizer can be written
// where its steps are exactly those of a name, and is refused elsewhere: an almost right name gives wrong tokens
// without a word.
#pragma once

#include <string_view>

#include "tokenizer/parts.h"

namespace windlass {

struct GgmlCut {
    std::string_view name;
    std::string_view differs;  // which texts llama.cpp cuts otherwise all the same; empty: none that is known
};

// UserError(model) naming `where` and the steps that have no name.
GgmlCut ggml_cut(const TokenizerParts& parts, std::string_view where);

}  // namespace windlass
