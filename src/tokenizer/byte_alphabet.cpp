#include "tokenizer/byte_alphabet.h"

#include <array>

#include "base/utf8.h"

namespace windlass {
namespace {

constexpr int kLetterEnd = 256 + 68;

struct Alphabet {
    std::array<char32_t, 256> letter{};
    std::array<int16_t, kLetterEnd> byte{};  // -1: not a letter

    constexpr Alphabet() {
        byte.fill(-1);
        char32_t next = 0x100;
        for (int b = 0; b < 256; ++b) {
            const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
            letter[b] = printable ? static_cast<char32_t>(b) : next++;
            byte[letter[b]] = static_cast<int16_t>(b);
        }
    }
};

constexpr Alphabet kAlphabet;

}  // namespace

std::string spell_bytes(std::string_view bytes) {
    std::string out;
    out.reserve(bytes.size() + bytes.size() / 4);
    for (const char byte : bytes) append_utf8(out, kAlphabet.letter[static_cast<uint8_t>(byte)]);
    return out;
}

std::optional<std::string> unspell_bytes(std::string_view spelling) {
    std::string out;
    while (!spelling.empty()) {
        const CodePoint point = first_code_point(spelling);
        if (point.value >= kLetterEnd || kAlphabet.byte[point.value] < 0) return std::nullopt;
        out.push_back(static_cast<char>(kAlphabet.byte[point.value]));
        spelling.remove_prefix(point.bytes);
    }
    return out;
}

}  // namespace windlass
