// pattern.h: a literal or a regular expression that finds the pieces of a text.
//
// Expressions are written for Oniguruma, which Hugging Face tokenizers use; the few spellings that mean something
// else in PCRE2 are rewritten, and those that we cannot render exactly are refused by name. Matching is bounded: a text
// whose matches together need more than 32 steps per byte throws instead of hanging.
// Immutable and thread-safe once built; move-only.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace windlass {

struct Span {
    size_t begin = 0;
    size_t end = 0;
    bool operator==(const Span&) const = default;
};

// UserError(data) for a text that a tokenizer's replacements make longer than this.
void check_growth(size_t bytes, size_t bytes_max);

class Pattern {
  public:
    static Pattern literal(std::string text);
    // Throws UserError(model) naming `where` when the expression is malformed or not supported.
    static Pattern regex(std::string_view expression, std::string_view where);

    const std::string& text() const { return text_; }  // the literal, or the expression as it was written
    bool is_regex() const { return code_ != nullptr; }

    // Matches from left to right that do not overlap, in valid UTF-8. Throws UserError(data) past the step limit.
    std::vector<Span> find_all(std::string_view text) const;

    // The text with every match replaced. Throws UserError(data), before it allocates, where that has more bytes.
    std::string replace_all(std::string_view text, std::string_view replacement, size_t bytes_max) const;

  private:
    struct FreeCode {
        void operator()(void* code) const;
    };
    std::vector<Span> find_expression(std::string_view text) const;

    std::string text_;                      // the literal, or the expression as it was written
    std::unique_ptr<void, FreeCode> code_;  // pcre2_code; empty: a literal
};

}  // namespace windlass
