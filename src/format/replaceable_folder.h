// replaceable_folder.h: whether a folder that is in the way of a model folder may be removed for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace windlass {

inline constexpr const char* kCardName = "README.md";
// A line of the cards that Windlass writes. Where it is gone, the text is a user's.
inline constexpr std::string_view kCardMark =
    "<!-- Written by Windlass. Remove this line from a card that you edit. -->";

// A folder may be replaced that is empty, or that is a model folder and nothing else: config.json, safetensors, files
// of tokenizers, a card of ours (kCardMark), and the names in `side_files`, which the new folder has too.
// UserError(storage) names the first other thing. The model folder of a checkpoint is never replaced.
void check_replaceable(FileSystem& files, const std::string& folder, const std::vector<std::string>& side_files);

// UserError(usage) where `folder` is one of these, by whatever path and links it is named. Those that are not there are
// skipped.
void check_not_among(FileSystem& files, const std::string& folder, const std::vector<std::string>& bases);

}  // namespace windlass
