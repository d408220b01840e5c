// hub_download.h: puts a model of the Hugging Face Hub into the Hub's cache, by the Hub's own program, `hf`. Windlass
// itself opens no connection.
#pragma once

#include <optional>
#include <string>

#include "config/model_place.h"

namespace windlass {

// What --download asks for; nothing where it was not given.
using Download = std::optional<HubFiles>;

// Runs `hf download`, or the older `huggingface-cli`, for the model that this name means, unless the cache has these
// files. Its messages go to stderr; it ends if this process does. UserError(usage) for a name that is no id and no
// path, UserError(model) where neither program is in PATH, where it fails, and where the files are missing after it.
void download_model(FileSystem& files, const std::string& name, HubFiles which);

}  // namespace windlass
