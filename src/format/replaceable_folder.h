// replaceable_folder.h: whether a folder that is in the way of a model folder may be removed for it.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace windlass {

// A folder may be replaced that is empty, or that is a model folder and nothing else: config.json, safetensors, files
// of tokenizers, and the names in `side_files`, which the new folder has too. UserError(storage) names the first other
// thing. The model folder of a checkpoint is never replaced.
void check_replaceable(FileSystem& files, const std::string& folder, const std::vector<std::string>& side_files);

// UserError(usage) where `folder` is one of these, by whatever path and links it is named. Those that are not there are
// skipped.
void check_not_among(FileSystem& files, const std::string& folder, const std::vector<std::string>& bases);

}  // namespace windlass
