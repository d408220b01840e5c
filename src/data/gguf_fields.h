// gguf_fields.h: what a GGUF file says besides the model: its tokenizer, its chat template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "format/gguf.h"

namespace windlass {

// Of a model folder whose tables have `rows` rows; the model is to be called `name`, which tokens may change, and its
// chat template is `chat_template`, or the folder's own where that is empty. Notes on what llama.cpp reads otherwise
// are warnings. UserError(model) where the folder has no tokenizer, or one that llama.cpp has not.
std::vector<GgufField> gguf_fields(FileSystem& files, const std::string& folder, int64_t rows, std::string_view name,
                                   std::string chat_template);

}  // namespace windlass
