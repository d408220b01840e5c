// byte_alphabet.h: the 256 printable letters in which byte-level vocabularies spell bytes.
//
// Bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF are the code points of the same number; the other 68, in rising order,
// are U+0100 upwards (GPT-2's bytes_to_unicode).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace windlass {

// Every byte spelled in the alphabet, as UTF-8.
std::string spell_bytes(std::string_view bytes);
// The bytes that a spelling means; nothing if a code point of this valid UTF-8 is no letter of the alphabet.
std::optional<std::string> unspell_bytes(std::string_view spelling);

}  // namespace windlass
