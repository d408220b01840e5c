// plural.h: counts in words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace windlass {

// "1 file", "2 files", "0 files". `many` is the plural where it is not the noun with an s: counted(2, "index",
// "indices").
std::string counted(int64_t count, std::string_view one, std::string_view many = "");

}  // namespace windlass
