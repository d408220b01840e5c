#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"

namespace windlass {
namespace {

// Nothing below decomposes.
constexpr char32_t kFirstDecomposable = 0xC0;
// The longest canonical decomposition of one code point has 4 code points (Unicode 5 to date); room to spare.
constexpr int kDecompositionMax = 32;

bool is_surely_nfc(std::string_view text) {
    // Lead bytes below 0xCC encode U+0000..U+02FF: starters, already composed, that nothing here can join.
    return std::all_of(text.begin(), text.end(), [](char byte) { return static_cast<unsigned char>(byte) < 0xCC; });
}

std::vector<utf8proc_int32_t> decompose(std::string_view text) {
    std::vector<utf8proc_int32_t> points;
    points.reserve(text.size());
    while (!text.empty()) {
        const CodePoint point = first_code_point(text);
        text.remove_prefix(point.bytes);
        if (point.value < kFirstDecomposable) {
            points.push_back(static_cast<utf8proc_int32_t>(point.value));
            continue;
        }
        utf8proc_int32_t parts[kDecompositionMax];
        int boundary = 0;
        const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(point.value), parts, kDecompositionMax,
                                                   UTF8PROC_DECOMPOSE, &boundary);
        WINDLASS_CHECK(count >= 0 && count <= kDecompositionMax, "U+{:04X} does not decompose",
                       static_cast<uint32_t>(point.value));
        points.insert(points.end(), parts, parts + count);
    }
    return points;
}

// Canonical order: each run of marks sorted by combining class, equal classes in place. utf8proc's own pass swaps
// neighbours, which takes quadratic time on a hostile run.
void order_marks(std::vector<utf8proc_int32_t>& points) {
    const auto combining_class = [](utf8proc_int32_t point) { return utf8proc_get_property(point)->combining_class; };
    for (auto at = points.begin(); at != points.end();) {
        if (combining_class(*at) == 0) {
            ++at;
            continue;
        }
        const auto end = std::find_if(at, points.end(), [&](auto point) { return combining_class(point) == 0; });
        std::stable_sort(at, end, [&](auto a, auto b) { return combining_class(a) < combining_class(b); });
        at = end;
    }
}

}  // namespace

std::string to_nfc(std::string_view text) {
    if (is_surely_nfc(text)) return std::string(text);
    std::vector<utf8proc_int32_t> points = decompose(text);
    order_marks(points);
    const auto count = utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                                                static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    std::string out;
    out.reserve(text.size());
    for (utf8proc_ssize_t i = 0; i < count; ++i) append_utf8(out, static_cast<char32_t>(points[i]));
    return out;
}

std::string Normalizer::apply(std::string_view text, size_t room) const {
    const size_t bytes_max = kGrowthMax * text.size() + room;
    std::string out(text);
    for (const auto& step : steps_) {
        if (std::holds_alternative<NfcStep>(step)) {
            out = to_nfc(out);
        } else if (const auto* prepend = std::get_if<PrependStep>(&step)) {
            if (out.empty()) continue;
            check_growth(out.size() + prepend->text.size(), bytes_max);
            out.insert(0, prepend->text);
        } else {
            const auto& replace = std::get<ReplaceStep>(step);
            out = replace.pattern.replace_all(out, replace.replacement, bytes_max);
        }
    }
    return out;
}

}  // namespace windlass
