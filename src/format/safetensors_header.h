// safetensors_header.h: the JSON header of a .safetensors file, parsed without building a tree, and its rules.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "format/safetensors.h"

namespace windlass {

inline constexpr int64_t kTensorsMax = 1'000'000;  // in one file
inline constexpr size_t kTensorNameBytesMax = 1024;

struct SafetensorsHeader {
    std::vector<TensorEntry> entries;  // in the order of their bytes; offsets count from the start of the data
    std::map<std::string, std::string> metadata;
};

// Parses the header text and checks that the tensors tile data_bytes exactly. Throws UserError(model, where).
SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes, std::string_view where);

// Bits of one element; 0 for a name that the format does not know.
int64_t safetensors_dtype_bits(std::string_view name);

}  // namespace windlass
