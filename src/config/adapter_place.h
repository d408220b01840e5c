// adapter_place.h: which folder the name of an adapter means, and the kind of the adapter in it.
#pragma once

#include <string>

#include "base/file.h"

namespace windlass {

// Of a run or a checkpoint of ours the folder of the adapter that it made; any other path as it is.
std::string adapter_folder_of(FileSystem& files, const std::string& path);

// "lora", "lsp", ...; empty where the folder holds no adapter that can be read: opening it says what is wrong.
std::string adapter_kind_of(FileSystem& files, const std::string& path);

}  // namespace windlass
