// text_cuts.h: places at which a text is cut.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace windlass {

// The parts between these characters, one more than there are of them.
std::vector<std::string_view> split(std::string_view text, char separator);

// The last place at or before byte `at` where a character of UTF-8 begins; 0 where none does.
size_t character_begin(std::string_view text, size_t at);

}  // namespace windlass
