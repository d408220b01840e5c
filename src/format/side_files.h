// side_files.h: which files of a model folder a trained copy takes along, and which it must not.
//
// Trained models are published, and a model folder comes from somewhere else: so only regular files of a bounded size
// are taken, and a link only where it ends inside the folder or among the blobs of the same model in a Hugging Face
// cache. Nothing here throws for a file: what cannot be taken is named, with the reason.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace windlass {

inline constexpr int64_t kSideFileBytesMax = int64_t{128} << 20;            // tokenizers have a few tens of MiB
inline constexpr const char* kChatTemplateName = "chat_template.jinja";     // which wins over those in other files
inline constexpr const char* kTemplatesName = "additional_chat_templates";  // the one folder whose files are taken

struct SideFiles {
    std::vector<std::string> names;     // relative to the folder
    std::vector<std::string> left_out;  // "notes.txt (a link out of the model folder)"
};

// Of a folder that holds these names.
SideFiles find_side_files(FileSystem& files, const std::string& folder,
                          const std::set<std::string, std::less<>>& names);

// One warning that names what a copy of `folder` will lack: what is left out, and what cannot be opened today.
void warn_of_side_files(FileSystem& files, const std::string& folder, const std::vector<std::string>& names,
                        std::vector<std::string> left_out);

// Why this file of a model folder must not be copied, or its text put into what is written elsewhere; empty: it may.
std::string why_not_copied(FileSystem& files, const std::string& folder, const std::string& name);
// UserError(model) where that is not empty.
void require_copyable(FileSystem& files, const std::string& folder, const std::string& name);

// Whether a weight file has such a name that we never read it.
bool is_pickle(std::string_view name);

}  // namespace windlass
