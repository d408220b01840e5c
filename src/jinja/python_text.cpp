#include "jinja/python_text.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"

namespace windlass::jinja {
namespace {

utf8proc_int32_t number(char32_t point) {
    return static_cast<utf8proc_int32_t>(point);
}

// The letters that replace one letter (Unicode's SpecialCasing); for small letters, its case folding.
std::vector<char32_t> expansion(char32_t point) {
    if (point < 0x80 || utf8proc_category(number(point)) != UTF8PROC_CATEGORY_LL) return {};
    utf8proc_int32_t folded[8];
    int boundclass = 0;
    const auto count = utf8proc_decompose_char(number(point), folded, 8, UTF8PROC_CASEFOLD, &boundclass);
    if (count < 2 || count > 8) return {};
    return {folded, folded + count};
}

void append_upper(std::string& out, char32_t point) {
    const std::vector<char32_t> several = expansion(point);
    if (several.empty()) return append_utf8(out, static_cast<char32_t>(utf8proc_toupper(number(point))));
    for (const char32_t one : several) append_utf8(out, static_cast<char32_t>(utf8proc_toupper(number(one))));
}

void append_title(std::string& out, char32_t point) {
    const auto title = static_cast<char32_t>(utf8proc_totitle(number(point)));
    const std::vector<char32_t> several = expansion(point);
    const bool has_title = utf8proc_category(number(title)) == UTF8PROC_CATEGORY_LT;
    if (has_title || several.empty()) return append_utf8(out, title);
    append_utf8(out, static_cast<char32_t>(utf8proc_totitle(number(several[0]))));
    for (size_t i = 1; i < several.size(); ++i) append_utf8(out, several[i]);
}

bool is_cased(char32_t point) {
    switch (utf8proc_category(number(point))) {
        case UTF8PROC_CATEGORY_LU:
        case UTF8PROC_CATEGORY_LL:
        case UTF8PROC_CATEGORY_LT:
            return true;
        default:
            return utf8proc_toupper(number(point)) != number(point) || utf8proc_tolower(number(point)) != number(point);
    }
}

// Unicode's Case_Ignorable: marks, modifiers, and signs within words.
bool is_case_ignorable(char32_t point) {
    static constexpr char32_t kWithinWords[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,  0x5F4,  0x2018, 0x2019,
                                                0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    if (std::find(std::begin(kWithinWords), std::end(kWithinWords), point) != std::end(kWithinWords)) return true;
    switch (utf8proc_category(number(point))) {
        case UTF8PROC_CATEGORY_MN:
        case UTF8PROC_CATEGORY_ME:
        case UTF8PROC_CATEGORY_CF:
        case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_SK:
            return true;
        default:
            return false;
    }
}

// Capital sigma ends a word as another letter than within one.
bool is_final_sigma(std::string_view before, std::string_view after) {
    while (!before.empty()) {
        const CodePoint last = last_code_point(before);
        if (!is_case_ignorable(last.value)) {
            if (!is_cased(last.value)) return false;
            break;
        }
        before.remove_suffix(last.bytes);
    }
    if (before.empty()) return false;
    while (!after.empty()) {
        const CodePoint first = first_code_point(after);
        if (!is_case_ignorable(first.value)) return !is_cased(first.value);
        after.remove_prefix(first.bytes);
    }
    return true;
}

void append_lower(std::string& out, std::string_view text, size_t at, CodePoint point) {
    if (point.value == 0x130) {
        out += "i\xCC\x87";
    } else if (point.value == 0x3A3) {
        out += is_final_sigma(text.substr(0, at), text.substr(at + point.bytes)) ? "\xCF\x82" : "\xCF\x83";
    } else {
        append_utf8(out, static_cast<char32_t>(utf8proc_tolower(number(point.value))));
    }
}

// Each code point in its turn, with its place.
template <typename Function>
void each_point(std::string_view text, Function function) {
    for (size_t at = 0; at < text.size();) {
        const CodePoint point = first_code_point(text.substr(at));
        function(at, point);
        at += point.bytes;
    }
}

template <typename Function>
Value mapped(Arena& arena, std::string_view text, Function function) {
    arena.work(text.size() * 8);
    arena.memory(text.size() * 2);
    std::string out;
    each_point(text, [&](size_t at, CodePoint point) { function(out, at, point); });
    return arena.string(out);
}

// The library's search in a text of equal letters takes so much longer for a byte than looking at it.
constexpr size_t kSearchWork = 8;

bool is_in(std::string_view set, std::string_view point) {
    return set.find(point) != std::string_view::npos;
}

template <typename Function>
bool has_only(std::string_view text, Function is_other) {
    bool has_any = false, has_other = false;
    each_point(text, [&](size_t, CodePoint point) {
        has_any |= is_cased(point.value);
        has_other |= is_other(point.value);
    });
    return has_any && !has_other;
}

}  // namespace

bool is_space(char32_t point) {
    if (point <= 0x20) return point == 0x20 || (point >= 9 && point <= 13) || (point >= 0x1C && point <= 0x1F);
    return point == 0x85 || point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) ||
           point == 0x2028 || point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

std::string_view strip_left(std::string_view text) {
    while (!text.empty()) {
        const CodePoint first = first_code_point(text);
        if (!is_space(first.value)) break;
        text.remove_prefix(first.bytes);
    }
    return text;
}

std::string_view strip_right(std::string_view text) {
    while (!text.empty()) {
        const CodePoint last = last_code_point(text);
        if (!is_space(last.value)) break;
        text.remove_suffix(last.bytes);
    }
    return text;
}

// No code point's bytes occur within those of another, so sets can be searched as bytes.
std::string_view strip_left(Arena& arena, std::string_view text, std::string_view set) {
    while (!text.empty()) {
        arena.work(set.size() * kSearchWork + 1);
        const CodePoint first = first_code_point(text);
        if (!is_in(set, text.substr(0, first.bytes))) break;
        text.remove_prefix(first.bytes);
    }
    return text;
}

std::string_view strip_right(Arena& arena, std::string_view text, std::string_view set) {
    while (!text.empty()) {
        arena.work(set.size() * kSearchWork + 1);
        const CodePoint last = last_code_point(text);
        if (!is_in(set, text.substr(text.size() - last.bytes))) break;
        text.remove_suffix(last.bytes);
    }
    return text;
}

size_t count_points(std::string_view text) {
    return static_cast<size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::vector<size_t> point_offsets(Arena& arena, std::string_view text) {
    arena.work(text.size());
    arena.memory(text.size() * sizeof(size_t));
    std::vector<size_t> offsets;
    offsets.reserve(text.size() + 1);
    each_point(text, [&](size_t at, CodePoint) { offsets.push_back(at); });
    offsets.push_back(text.size());
    return offsets;
}

Value to_upper(Arena& arena, std::string_view text) {
    return mapped(arena, text, [](std::string& out, size_t, CodePoint point) { append_upper(out, point.value); });
}

Value to_lower(Arena& arena, std::string_view text) {
    return mapped(arena, text, [&](std::string& out, size_t at, CodePoint point) {
        if (point.value == 0x3A3) arena.work(text.size());
        append_lower(out, text, at, point);
    });
}

Value to_capitalized(Arena& arena, std::string_view text) {
    return mapped(arena, text, [&](std::string& out, size_t at, CodePoint point) {
        if (point.value == 0x3A3) arena.work(text.size());
        if (at == 0)
            append_title(out, point.value);
        else
            append_lower(out, text, at, point);
    });
}

Value to_title(Arena& arena, std::string_view text) {
    bool in_word = false;
    return mapped(arena, text, [&](std::string& out, size_t at, CodePoint point) {
        if (point.value == 0x3A3) arena.work(text.size());
        if (in_word)
            append_lower(out, text, at, point);
        else
            append_title(out, point.value);
        in_word = is_cased(point.value);
    });
}

bool is_printable(char32_t point) {
    if (point < 0x7F) return point >= 0x20;
    switch (utf8proc_category(number(point))) {
        case UTF8PROC_CATEGORY_CC:
        case UTF8PROC_CATEGORY_CF:
        case UTF8PROC_CATEGORY_CS:
        case UTF8PROC_CATEGORY_CO:
        case UTF8PROC_CATEGORY_CN:
        case UTF8PROC_CATEGORY_ZL:
        case UTF8PROC_CATEGORY_ZP:
        case UTF8PROC_CATEGORY_ZS:
            return false;
        default:
            return true;
    }
}

bool has_only_upper(std::string_view text) {
    return has_only(text, [](char32_t point) {
        const auto category = utf8proc_category(number(point));
        return category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
    });
}

bool has_only_lower(std::string_view text) {
    return has_only(text, [](char32_t point) {
        const auto category = utf8proc_category(number(point));
        return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LT;
    });
}

}  // namespace windlass::jinja
