// base_checksum.h: which weights a model folder holds, as one number.
#pragma once

#include <string>

#include "format/model_folder.h"

namespace windlass {

// 16 hexadecimal digits: XXH3-64 over all tensors, sorted by name: how they are spread over files does not matter. Of
// each its name and type (u64 bytes and the text), u64 rank, its extents, u64 bytes, and the bytes. Reads all of them
// once, 8 MiB at a time.
std::string base_checksum(const ModelFolder& folder);

}  // namespace windlass
