// utf8.h: code points in and out of UTF-8, and invalid bytes made valid the way Rust's lossy conversion does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace windlass {

struct CodePoint {
    char32_t value = 0;
    size_t bytes = 0;
};

// The first code point of a non-empty string that is valid UTF-8.
CodePoint first_code_point(std::string_view valid);
// The last code point of a non-empty string that is valid UTF-8.
CodePoint last_code_point(std::string_view valid);

void append_utf8(std::string& out, char32_t value);

bool is_valid_utf8(std::string_view text);

// The text with U+FFFD in place of every maximal run of bytes that starts a sequence but cannot be completed
// (Unicode 3.9, "substitution of maximal subparts"). Hugging Face tokenizers see invalid input the same way.
std::string to_valid_utf8(std::string_view text);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace windlass
