// damage.h: changing bytes of files of ours, and their checksums with them.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "format/checksum.h"

namespace windlass {

template <typename T>
void put(std::string& bytes, size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof(value));
}

inline uint64_t sum_of(std::string_view bytes) {
    return xxh3_64(bytes_of(bytes));
}

}  // namespace windlass
