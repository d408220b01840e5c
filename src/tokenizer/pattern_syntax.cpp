#include "tokenizer/pattern_syntax.h"

#include <array>
#include <cctype>

#include "base/error.h"

namespace windlass {
namespace {

// White_Space, as a set for use inside brackets. PCRE2's own \s also takes U+180E, Oniguruma's does not.
constexpr std::string_view kSpaceSet = R"(\p{Z}\t-\r\x{85})";
// Escapes whose meaning is the same in both engines. All punctuation is, too.
constexpr std::string_view kPlainEscapes = "pPdDrntfaezAxu";
// What may follow "(?": groups, the caseless option, assertions, atomic groups. Other options differ between engines.
constexpr std::array<std::string_view, 8> kGroups = {"(?:", "(?i:", "(?i)", "(?=", "(?!", "(?<=", "(?<!", "(?>"};

class Translator {
  public:
    Translator(std::string_view expression, std::string_view where) : in_(expression), where_(where) {}

    std::string run() {
        while (at_ < in_.size()) step();
        return std::move(out_);
    }

  private:
    void step() {
        const char c = in_[at_];
        if (c == '\\') return escape();
        if (in_set_ && c == '[') refuse("a set inside a set");
        if (in_set_ && in_.substr(at_).starts_with("&&")) refuse("an intersection of sets");
        if (!in_set_ && in_.substr(at_).starts_with("(?")) check_group();
        if (!in_set_ && c == '}' && at_ + 1 < in_.size() && in_[at_ + 1] == '+') refuse("a repeated {n,m}+");
        if (in_set_ && c == ']' && at_ != set_first_) in_set_ = false;
        if (!in_set_ && c == '[') open_set();
        out_ += c;
        ++at_;
    }

    void check_group() const {
        for (const auto& group : kGroups)
            if (in_.substr(at_).starts_with(group)) return;
        refuse(fmt::format("the group {}", in_.substr(at_, 4)));
    }

    void open_set() {
        in_set_ = true;
        set_first_ = at_ + 1;
        if (set_first_ < in_.size() && in_[set_first_] == '^') ++set_first_;
    }

    void escape() {
        if (at_ + 1 >= in_.size()) refuse("a backslash at the end");
        const char c = in_[at_ + 1];
        if (c == 's') {
            out_ += in_set_ ? std::string(kSpaceSet) : fmt::format("[{}]", kSpaceSet);
        } else if (c == 'S' && !in_set_) {
            out_ += fmt::format("[^{}]", kSpaceSet);
        } else if (c == 'u') {
            return code_unit();
        } else if (in_.substr(at_ + 2).starts_with('{')) {
            return braced();
        } else if (std::isalnum(static_cast<unsigned char>(c)) && kPlainEscapes.find(c) == std::string_view::npos) {
            refuse(fmt::format("\\{}", c));
        } else {
            out_ += in_.substr(at_, 2);
        }
        at_ += 2;
    }

    // \uHHHH, which PCRE2 writes \x{HHHH}.
    void code_unit() {
        const std::string_view digits = in_.substr(at_ + 2, 4);
        if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
            refuse("\\u without four hexadecimal digits");
        out_ += fmt::format("\\x{{{}}}", digits);
        at_ += 6;
    }

    // \p{..}, \P{..}, \x{..}
    void braced() {
        const size_t end = in_.find('}', at_);
        if (std::string_view("pPx").find(in_[at_ + 1]) == std::string_view::npos || end == std::string_view::npos)
            refuse(in_.substr(at_, 3));
        out_ += in_.substr(at_, end + 1 - at_);
        at_ = end + 1;
    }

    [[noreturn]] void refuse(std::string_view what) const {
        throw UserError(ExitCode::model, where_, "the expression {} uses {}, which is not supported", in_, what);
    }

    std::string_view in_;
    std::string_view where_;
    std::string out_;
    size_t at_ = 0;
    size_t set_first_ = 0;  // where a ']' would be a member of the set and not its end
    bool in_set_ = false;
};

}  // namespace

std::string to_pcre2_syntax(std::string_view expression, std::string_view where) {
    return Translator(expression, where).run();
}

}  // namespace windlass
