#include "tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/printable.h"

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
        throw UserError(ExitCode::model, where_, "the expression {} uses {}, which is not supported", excerpt(in_),
                        excerpt(what));
    }

    std::string_view in_;
    std::string_view where_;
    std::string out_;
    size_t at_ = 0;
    size_t set_first_ = 0;  // where a ']' would be a member of the set and not its end
    bool in_set_ = false;
};

// From Oniguruma's syntax, as tokenizer.json files use it: the same language in PCRE2's syntax (with UTF, UCP and
// MULTILINE). Throws UserError(model) at constructs that we cannot render exactly.
std::string to_pcre2_syntax(std::string_view expression, std::string_view where) {
    return Translator(expression, where).run();
}

constexpr size_t kExpressionBytesMax = 64 << 10;
constexpr size_t kTextBytesMax = size_t{1} << 30;
// Steps of backtracking that a text may take: generous for expressions that are linear, fatal for the others. A few at
// each byte are free; a place that needs more is paid from the text's own store of them.
constexpr uint32_t kFreeSteps = 256;
constexpr uint64_t kStepsFloor = 4096;
constexpr uint64_t kStepsPerByte = 32;  // about a second for a MiB
constexpr uint64_t kStepsGrowth = 4;    // of the limit, from one attempt at a place to the next
constexpr size_t kWindowBytes = 64;     // in which one search may look for a place
constexpr uint32_t kHeapKiBMax = 512 << 10;

struct FreeMatch {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
    void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

PCRE2_SPTR bytes_of(std::string_view text) {
    return reinterpret_cast<PCRE2_SPTR>(text.data());
}

std::string message_of(int error) {
    PCRE2_UCHAR buffer[256];
    const int length = pcre2_get_error_message(error, buffer, sizeof buffer);
    return std::string(reinterpret_cast<const char*>(buffer), static_cast<size_t>(std::max(length, 0)));
}

// The matches of an expression in a text, one after the other.
class Search {
  public:
    Search(const pcre2_code* code, std::string_view text, const std::string& expression)
        : code_(code),
          text_(text),
          expression_(expression),
          data_(pcre2_match_data_create(1, nullptr)),
          context_(pcre2_match_context_create(nullptr)),
          left_(kStepsFloor + kStepsPerByte * text.size()) {
        pcre2_set_heap_limit(context_.get(), kHeapKiBMax);
    }

    // The first match that begins at `at` or after it. PCRE2 counts steps again at every place where a match may begin,
    // so it is given a window of such places, and where one of them takes too long, each place by itself.
    std::optional<Span> next(size_t at) {
        while (at <= text_.size()) {
            if (at >= one_by_one_until_) {
                const size_t last = std::min(at + kWindowBytes - 1, text_.size());
                const int result = match(at, last, 0, kFreeSteps);
                if (result >= 0) return found();
                if (result == PCRE2_ERROR_NOMATCH)
                    at = boundary(last + 1);
                else if (result == PCRE2_ERROR_MATCHLIMIT)
                    one_by_one_until_ = last + 1;
                else
                    give_up(result);
            } else {
                if (matches_at(at)) return found();
                at = boundary(at + 1);
            }
        }
        return std::nullopt;
    }

    // The first boundary after this place, where a code point begins.
    size_t boundary(size_t at) const {
        while (at < text_.size() && (static_cast<uint8_t>(text_[at]) & 0xC0) == 0x80) ++at;
        return at;
    }

  private:
    int match(size_t at, size_t last, uint32_t flags, uint64_t steps) {
        constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
        pcre2_set_match_limit(context_.get(), static_cast<uint32_t>(std::min(steps, kMost)));
        pcre2_set_offset_limit(context_.get(), last);
        const auto attempt = [&](uint32_t more) {
            return pcre2_match(code_, bytes_of(text_), text_.size(), at, PCRE2_NO_UTF_CHECK | flags | more, data_.get(),
                               context_.get());
        };
        // The compiled code has a small fixed stack; the interpreter takes over beyond it.
        const int result = attempt(0);
        return result == PCRE2_ERROR_JIT_STACKLIMIT ? attempt(PCRE2_NO_JIT) : result;
    }

    bool matches_at(size_t at) {
        for (uint64_t steps = kFreeSteps;; steps = std::min(steps * kStepsGrowth, left_)) {
            const int result = match(at, at, PCRE2_ANCHORED, steps);
            if (steps > kFreeSteps) left_ -= steps;
            if (result >= 0 || result == PCRE2_ERROR_NOMATCH) return result >= 0;
            if (result != PCRE2_ERROR_MATCHLIMIT || left_ <= kFreeSteps) give_up(result);
        }
    }

    Span found() const {
        const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data_.get());
        return {bounds[0], bounds[1]};
    }

    [[noreturn]] void give_up(int result) const {
        throw UserError(ExitCode::data, "tokenizer", "the expression {} gives up on a text of {} bytes: {}",
                        excerpt(expression_), text_.size(), message_of(result));
    }

    const pcre2_code* code_;
    std::string_view text_;
    const std::string& expression_;
    std::unique_ptr<pcre2_match_data, FreeMatch> data_;
    std::unique_ptr<pcre2_match_context, FreeMatch> context_;
    uint64_t left_;                // steps that may still be paid for
    size_t one_by_one_until_ = 0;  // places before this one are tried by themselves
};

}  // namespace

void Pattern::FreeCode::operator()(void* code) const {
    pcre2_code_free(static_cast<pcre2_code*>(code));
}

Pattern Pattern::literal(std::string text) {
    Pattern pattern;
    pattern.text_ = std::move(text);
    return pattern;
}

Pattern Pattern::regex(std::string_view expression, std::string_view where) {
    if (expression.size() > kExpressionBytesMax)
        throw UserError(ExitCode::model, where, "an expression has {} bytes, at most {} are read", expression.size(),
                        kExpressionBytesMax);
    const std::string translated = to_pcre2_syntax(expression, where);
    int error = 0;
    PCRE2_SIZE offset = 0;
    constexpr uint32_t kFlags =
        PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT;
    Pattern pattern;
    pattern.text_ = std::string(expression);
    pattern.code_.reset(pcre2_compile(bytes_of(translated), translated.size(), kFlags, &error, &offset, nullptr));
    if (!pattern.code_)
        throw UserError(ExitCode::model, where, "the expression {} is malformed: {}", excerpt(expression),
                        message_of(error));
    // Without the just-in-time compiler the interpreter does the same, more slowly.
    pcre2_jit_compile(static_cast<pcre2_code*>(pattern.code_.get()), PCRE2_JIT_COMPLETE);
    return pattern;
}

std::vector<Span> Pattern::find_all(std::string_view text) const {
    if (code_) return find_expression(text);
    std::vector<Span> found;
    if (text_.empty()) return found;
    for (size_t at = text.find(text_); at != std::string_view::npos; at = text.find(text_, at + text_.size()))
        found.push_back({at, at + text_.size()});
    return found;
}

std::vector<Span> Pattern::find_expression(std::string_view text) const {
    if (text.size() > kTextBytesMax)
        throw UserError(ExitCode::data, "tokenizer", "a text of {} bytes is too long to split", text.size());
    Search search(static_cast<const pcre2_code*>(code_.get()), text, text_);
    std::vector<Span> found;
    for (std::optional<Span> match = search.next(0); match;) {
        found.push_back(*match);
        const bool is_empty = match->begin == match->end;
        match = search.next(is_empty ? search.boundary(match->end + 1) : match->end);
    }
    return found;
}

void check_growth(size_t bytes, size_t bytes_max) {
    if (bytes <= bytes_max) return;
    throw UserError(ExitCode::data, "tokenizer", "its replacements make {} bytes of a text that may become {}", bytes,
                    bytes_max);
}

std::string Pattern::replace_all(std::string_view text, std::string_view replacement, size_t bytes_max) const {
    const std::vector<Span> spans = find_all(text);
    size_t bytes = text.size() + spans.size() * replacement.size();
    for (const Span& span : spans) bytes -= span.end - span.begin;
    check_growth(bytes, bytes_max);
    std::string out;
    out.reserve(bytes);
    size_t end = 0;
    for (const Span& span : spans) {
        out += text.substr(end, span.begin - end);
        out += replacement;
        end = span.end;
    }
    out += text.substr(end);
    return out;
}

}  // namespace windlass
