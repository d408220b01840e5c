#include "config/adapter_place.h"

#include "base/error.h"
#include "base/file_error.h"
#include "format/adapter_folder.h"
#include "model/adapters/peft.h"

namespace windlass {

std::string adapter_folder_of(FileSystem& files, const std::string& path) {
    if (files.exists(path_in(path, kAdapterConfigName))) return path;
    for (const char* const inner : {"final", "adapter"}) {
        const std::string folder = path_in(path, inner);
        if (files.exists(path_in(folder, kAdapterConfigName))) return folder;
    }
    return path;
}

std::string adapter_kind_of(FileSystem& files, const std::string& path) {
    try {
        const AdapterFolder folder = AdapterFolder::open(files, adapter_folder_of(files, path));
        return read_peft_config(folder).settings.kind;
    } catch (const Error&) {
        return "";
    }
}

}  // namespace windlass
