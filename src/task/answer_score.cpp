#include "task/answer_score.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/unicode_class.h"

namespace windlass {
namespace {

bool is_ascii_punctuation(char32_t c) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// Small letters, without punctuation; every kind of white space is a space.
std::u32string small_letters(std::string_view text) {
    const std::string valid = to_valid_utf8(text);
    std::u32string out;
    for (std::string_view rest = valid; !rest.empty();) {
        const CodePoint point = first_code_point(rest);
        rest.remove_prefix(point.bytes);
        if (is_ascii_punctuation(point.value)) continue;
        out += is_white_space(point.value)
                   ? U' '
                   : static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point.value)));
    }
    return out;
}

// An article between characters that are of no word becomes a space; "a" in "vitamin-a" was joined to its word before.
void remove_articles(std::u32string& text) {
    for (size_t begin = 0; begin < text.size();) {
        if (!is_word(text[begin])) {
            ++begin;
            continue;
        }
        size_t end = begin;
        while (end < text.size() && is_word(text[end])) ++end;
        const std::u32string_view word = std::u32string_view(text).substr(begin, end - begin);
        if (word == U"a" || word == U"an" || word == U"the")
            std::fill(text.begin() + static_cast<std::ptrdiff_t>(begin),
                      text.begin() + static_cast<std::ptrdiff_t>(end), U' ');
        begin = end;
    }
}

using Words = std::map<std::string, int64_t, std::less<>>;

Words words_of(std::string_view normalized) {
    Words words;
    for (size_t begin = 0; begin < normalized.size();) {
        const size_t end = std::min(normalized.find(' ', begin), normalized.size());
        ++words[std::string(normalized.substr(begin, end - begin))];
        begin = end + 1;
    }
    return words;
}

int64_t count_of(const Words& words) {
    int64_t count = 0;
    for (const auto& [word, times] : words) count += times;
    return count;
}

double f1(std::string_view answer, std::string_view right) {
    const Words a = words_of(answer), b = words_of(right);
    if (a.empty() || b.empty()) return a.empty() && b.empty() ? 1 : 0;
    int64_t shared = 0;
    for (const auto& [word, times] : a) {
        const auto found = b.find(word);
        if (found != b.end()) shared += std::min(times, found->second);
    }
    return 2 * static_cast<double>(shared) / static_cast<double>(count_of(a) + count_of(b));
}

}  // namespace

std::string normalized_answer(std::string_view text) {
    std::u32string letters = small_letters(text);
    remove_articles(letters);
    std::string out;
    bool gap = false;
    for (const char32_t letter : letters) {
        if (letter == U' ') {
            gap = !out.empty();
            continue;
        }
        if (gap) out += ' ';
        gap = false;
        append_utf8(out, letter);
    }
    return out;
}

std::optional<double> last_number(std::string_view text) {
    const size_t last = text.find_last_of("0123456789");
    if (last == text.npos) return std::nullopt;
    size_t begin = last;
    // Backward over digits, and over points and commas that are between two of them.
    while (begin > 0 &&
           (is_digit(text[begin - 1]) || ((text[begin - 1] == '.' || text[begin - 1] == ',') && begin > 1 &&
                                          is_digit(text[begin - 2]) && is_digit(text[begin]))))
        --begin;
    if (begin > 0 && text[begin - 1] == '.') --begin;  // ".5"
    std::string digits;
    for (const char c : text.substr(begin, last - begin + 1))
        if (c != ',') digits += c;
    double value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    return begin > 0 && text[begin - 1] == '-' ? -value : value;
}

double answer_score(TaskMetric metric, std::string_view answer, std::span<const std::string> right) {
    WINDLASS_CHECK(metric != TaskMetric::accuracy, "written answers have no accuracy");
    const std::optional<double> number = metric == TaskMetric::number ? last_number(answer) : std::nullopt;
    const std::string normalized = normalized_answer(answer);
    double best = 0;
    for (const std::string& each : right) {
        double score = 0;
        if (metric == TaskMetric::number)
            score = number && number == last_number(each) ? 1 : 0;
        else if (metric == TaskMetric::f1)
            score = f1(normalized, normalized_answer(each));
        else
            score = normalized == normalized_answer(each) ? 1 : 0;
        best = std::max(best, score);
    }
    return best;
}

}  // namespace windlass
