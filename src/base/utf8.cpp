#include "base/utf8.h"

#include <algorithm>

namespace windlass {
namespace {

struct Sequence {
    size_t bytes = 0;  // of the code point, or of the maximal subpart when it is ill-formed
    bool valid = false;
};

unsigned char byte_at(std::string_view text, size_t i) {
    return static_cast<unsigned char>(text[i]);
}

// Well-formed sequences after Unicode table 3-7: the second byte's range depends on the first.
Sequence next_sequence(std::string_view text) {
    const unsigned char lead = byte_at(text, 0);
    if (lead < 0x80) return {1, true};
    if (lead < 0xC2 || lead > 0xF4) return {1, false};
    const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (size_t i = 1; i < length; ++i) {
        if (i >= text.size() || byte_at(text, i) < low || byte_at(text, i) > high) return {i, false};
        low = 0x80;
        high = 0xBF;
    }
    return {length, true};
}

}  // namespace

CodePoint first_code_point(std::string_view valid) {
    const unsigned char lead = byte_at(valid, 0);
    if (lead < 0x80) return {lead, 1};
    const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    char32_t value = lead & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; ++i) value = value << 6 | (byte_at(valid, i) & 0x3Fu);
    return {value, length};
}

CodePoint last_code_point(std::string_view valid) {
    size_t start = valid.size() - 1;
    while ((byte_at(valid, start) & 0xC0) == 0x80) --start;
    return first_code_point(valid.substr(start));
}

void append_utf8(std::string& out, char32_t value) {
    const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
    if (value < 0x80) {
        put(value);
    } else if (value < 0x800) {
        put(0xC0 | value >> 6);
        put(0x80 | (value & 0x3F));
    } else if (value < 0x10000) {
        put(0xE0 | value >> 12);
        put(0x80 | (value >> 6 & 0x3F));
        put(0x80 | (value & 0x3F));
    } else {
        put(0xF0 | value >> 18);
        put(0x80 | (value >> 12 & 0x3F));
        put(0x80 | (value >> 6 & 0x3F));
        put(0x80 | (value & 0x3F));
    }
}

bool is_valid_utf8(std::string_view text) {
    for (size_t i = 0; i < text.size();) {
        const Sequence sequence = next_sequence(text.substr(i));
        if (!sequence.valid) return false;
        i += sequence.bytes;
    }
    return true;
}

std::string to_valid_utf8(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size();) {
        const Sequence sequence = next_sequence(text.substr(i));
        out += sequence.valid ? text.substr(i, sequence.bytes) : kReplacementCharacter;
        i += sequence.bytes;
    }
    return out;
}

}  // namespace windlass
