#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "text/pattern_syntax.h"
#include "text/utf8.h"

namespace windlass {
namespace {

constexpr size_t kExpressionBytesMax = 64 << 10;
constexpr size_t kTextBytesMax = size_t{1} << 30;
// Steps of backtracking one search may take: generous for expressions that are linear, fatal for the others.
constexpr uint64_t kStepsFloor = 1 << 20;
constexpr uint64_t kStepsPerByte = 32;
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
    constexpr uint32_t kFlags = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    Pattern pattern;
    pattern.text_ = std::string(expression);
    pattern.code_.reset(pcre2_compile(bytes_of(translated), translated.size(), kFlags, &error, &offset, nullptr));
    if (!pattern.code_)
        throw UserError(ExitCode::model, where, "the expression {} is malformed: {}", expression, message_of(error));
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
    const auto* code = static_cast<const pcre2_code*>(code_.get());
    const std::unique_ptr<pcre2_match_data, FreeMatch> data(pcre2_match_data_create(1, nullptr));
    const std::unique_ptr<pcre2_match_context, FreeMatch> context(pcre2_match_context_create(nullptr));
    const uint64_t steps = kStepsFloor + kStepsPerByte * text.size();
    pcre2_set_match_limit(context.get(),
                          static_cast<uint32_t>(std::min<uint64_t>(steps, std::numeric_limits<uint32_t>::max())));
    pcre2_set_heap_limit(context.get(), kHeapKiBMax);
    // A match at `at`, or an error. The compiled code has a small fixed stack; the interpreter takes over beyond it.
    const auto match = [&](size_t at, uint32_t flags) {
        return pcre2_match(code, bytes_of(text), text.size(), at, PCRE2_NO_UTF_CHECK | flags, data.get(),
                           context.get());
    };
    std::vector<Span> found;
    for (size_t at = 0; at <= text.size();) {
        int result = match(at, 0);
        if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(at, PCRE2_NO_JIT);
        if (result == PCRE2_ERROR_NOMATCH) break;
        if (result < 0)
            throw UserError(ExitCode::data, "tokenizer", "the expression {} gives up on a text of {} bytes: {}", text_,
                            text.size(), message_of(result));
        const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data.get());
        found.push_back({bounds[0], bounds[1]});
        at = bounds[1];
        if (bounds[0] != bounds[1]) continue;
        if (at == text.size()) break;
        at += first_code_point(text.substr(at)).bytes;  // past an empty match
    }
    return found;
}

std::string Pattern::replace_all(std::string_view text, std::string_view replacement) const {
    std::string out;
    size_t end = 0;
    for (const Span& span : find_all(text)) {
        out += text.substr(end, span.begin - end);
        out += replacement;
        end = span.end;
    }
    out += text.substr(end);
    return out;
}

}  // namespace windlass
