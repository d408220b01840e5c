// printable.h: text that a terminal shows and does not obey.
//
// Names from files of others reach messages and tables. Characters that would move the cursor, recolour or reorder a
// line are written as escapes that JSON reads too. Applied once, where a line is printed. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace windlass {

// Line feeds and tabs stay. Other control characters (C0, DEL, C1) and the marks that turn the direction of writing
// (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069) become \u001b and the like; a byte that is no UTF-8
// becomes \x9b and the like.
std::string printable(std::string_view text);

// Of text that a model or a row has: the marks of direction that languages use (U+061C, U+200E, U+200F) stay.
std::string printable_prose(std::string_view text);

inline constexpr size_t kExcerptBytesMax = 200;

// Text of others as a message quotes it: the first bytes of a long one, to the end of a character, and how many it has.
std::string excerpt(std::string_view text, size_t bytes_max = kExcerptBytesMax);

}  // namespace windlass
