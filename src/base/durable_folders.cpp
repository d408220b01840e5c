#include "base/durable_folders.h"

#include <algorithm>
#include <vector>

#include "base/file_error.h"

namespace windlass {

void make_durable_folders(FileSystem& files, const std::string& path) {
    std::vector<std::string> holders;  // of the names that are missing, the innermost first
    for (std::string missing = path; !missing.empty() && !files.exists(missing); missing = holders.back()) {
        holders.push_back(parent_folder(missing));
        if (holders.back() == missing) break;
    }
    files.make_folders(path);
    std::ranges::for_each(holders, [&](const std::string& holder) { files.sync_folder(holder); });
}

}  // namespace windlass
