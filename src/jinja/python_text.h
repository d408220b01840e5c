// python_text.h: Python's str, where templates see it: code points, white space, letter case, and how values are
// written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace windlass::jinja {

bool is_space(char32_t point);  // str.isspace, and \s of regular expressions

std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);
// Strips the characters of `set` instead of white space.
std::string_view strip_left(Arena& arena, std::string_view text, std::string_view set);
std::string_view strip_right(Arena& arena, std::string_view text, std::string_view set);

size_t count_points(std::string_view text);
// Where code points begin, and at the end the size of the text.
std::vector<size_t> point_offsets(Arena& arena, std::string_view text);

Value to_upper(Arena& arena, std::string_view text);
Value to_lower(Arena& arena, std::string_view text);
Value to_capitalized(Arena& arena, std::string_view text);  // str.capitalize
Value to_title(Arena& arena, std::string_view text);        // str.title

bool is_printable(char32_t point);  // as repr sees it

// str.isupper and str.islower.
bool has_only_upper(std::string_view text);
bool has_only_lower(std::string_view text);

}  // namespace windlass::jinja
