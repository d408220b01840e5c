// generation_config.h: the ids at which transformers stops by a model folder's files, and that file with one more.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"

namespace windlass {

inline constexpr const char* kGenerationConfigName = "generation_config.json";

// `generate` and pipelines of transformers stop at "eos_token_id" of generation_config.json, or of config.json where
// there is no such file, whatever the tokenizer's files say. The text of the first with this id added; empty where it
// is among the ids. For a folder without that file, one that says what config.json says. Throws UserError(model) for a
// file that is no JSON object.
std::string generation_config_with_stop(FileSystem& files, const std::string& folder, int32_t id);

// The text of such a file that a run's folder has; empty where it has none. UserError(model) for a link out of it.
std::string generation_config_beside(FileSystem& files, const std::string& folder);

}  // namespace windlass
