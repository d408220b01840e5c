#include "base/printable.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/text_cuts.h"

namespace windlass {
namespace {

struct Point {
    char32_t value = 0;
    size_t bytes = 0;  // 0: no UTF-8
};

// The code point that this text begins with; the text is not empty.
Point first_point(std::string_view text) {
    const auto lead = static_cast<uint8_t>(text[0]);
    if (lead < 0x80) return {lead, 1};
    const size_t bytes = lead >= 0xC2 && lead < 0xE0   ? 2
                         : (lead & 0xF0) == 0xE0       ? 3
                         : lead >= 0xF0 && lead < 0xF5 ? 4
                                                       : 0;
    if (bytes == 0 || text.size() < bytes) return {};
    char32_t value = lead & (0x7F >> bytes);
    for (size_t i = 1; i < bytes; ++i) {
        const auto next = static_cast<uint8_t>(text[i]);
        if ((next & 0xC0) != 0x80) return {};
        value = value << 6 | (next & 0x3F);
    }
    const bool is_overlong = value < (bytes == 3 ? 0x800u : bytes == 4 ? 0x10000u : 0x80u);
    const bool is_surrogate = value >= 0xD800 && value < 0xE000;
    if (is_overlong || is_surrogate || value > 0x10FFFF) return {};
    return {value, bytes};
}

bool is_control(char32_t point) {
    return (point < 0x20 && point != '\n' && point != '\t') || (point >= 0x7F && point < 0xA0);
}

// What follows is embedded, overridden or isolated, until the mark that ends it: a line may read as another.
bool reorders(char32_t point) {
    return (point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
}

bool turns_direction(char32_t point) {
    return point == 0x061C || point == 0x200E || point == 0x200F || reorders(point);
}

template <typename Hidden>
std::string escaped(std::string_view text, Hidden is_hidden) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const Point point = first_point(text);
        if (point.bytes == 0)
            out += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[0]));
        else if (is_hidden(point.value))
            out += fmt::format("\\u{:04x}", static_cast<uint32_t>(point.value));
        else
            out += text.substr(0, point.bytes);
        text.remove_prefix(std::max<size_t>(point.bytes, 1));
    }
    return out;
}

}  // namespace

std::string printable(std::string_view text) {
    return escaped(text, [](char32_t point) { return is_control(point) || turns_direction(point); });
}

std::string printable_prose(std::string_view text) {
    return escaped(text, [](char32_t point) { return is_control(point) || reorders(point); });
}

std::string excerpt(std::string_view text, size_t bytes_max) {
    if (text.size() <= bytes_max) return std::string(text);
    const size_t end = character_begin(text, bytes_max);
    return fmt::format("{}... ({} bytes)", text.substr(0, end == 0 ? bytes_max : end), text.size());
}

}  // namespace windlass
