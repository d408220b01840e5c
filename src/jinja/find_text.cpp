// Search as Knuth, Morris and Pratt describe it (SIAM J. Comput. 6, 1977): the C++ library's takes the product of both
// lengths where a hostile template asks for it.
#include "jinja/operators.h"

namespace windlass::jinja {
namespace {

// A text, or the same from its end.
struct Directed {
    std::string_view text;
    bool is_reversed;
    char operator[](size_t i) const { return is_reversed ? text[text.size() - 1 - i] : text[i]; }
};

// For each prefix the length of the longest shorter one that it ends with.
std::vector<uint32_t> borders_of(const Directed& wanted) {
    std::vector<uint32_t> borders(wanted.text.size());
    for (size_t i = 1, matched = 0; i < borders.size(); ++i) {
        while (matched > 0 && wanted[i] != wanted[matched]) matched = borders[matched - 1];
        matched += wanted[i] == wanted[matched];
        borders[i] = static_cast<uint32_t>(matched);
    }
    return borders;
}

}  // namespace

size_t find_text(Arena& arena, std::string_view text, std::string_view wanted, bool from_right) {
    if (wanted.size() > text.size()) return std::string_view::npos;
    if (wanted.empty()) return from_right ? text.size() : 0;
    arena.work(wanted.size() * 2);
    const Directed pattern{wanted, from_right}, searched{text, from_right};
    const std::vector<uint32_t> borders = borders_of(pattern);
    for (size_t i = 0, matched = 0; i < text.size(); ++i) {
        while (matched > 0 && searched[i] != pattern[matched]) matched = borders[matched - 1];
        matched += searched[i] == pattern[matched];
        if (matched < wanted.size()) continue;
        arena.work(i);
        return from_right ? text.size() - 1 - i : i + 1 - wanted.size();
    }
    arena.work(text.size());
    return std::string_view::npos;
}

}  // namespace windlass::jinja
