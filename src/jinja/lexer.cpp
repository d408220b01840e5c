// A template cut into tokens: text, and what is between {{ }}, {% %} and {# #}.
//
// Rules of white space as transformers sets them: trim_blocks (the newline after a block or a comment goes) and
// lstrip_blocks (so do spaces between the start of a line and one). A '-' at a tag takes all white space, a '+' none.
#include <charconv>

#include "base/printable.h"
#include "base/utf8.h"
#include "jinja/python_text.h"
#include "jinja/syntax.h"

namespace windlass::jinja {
namespace {

// The largest template in use has 20 KB.
constexpr size_t kSourceBytesMax = size_t{1} << 18;

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

class Lexer {
  public:
    explicit Lexer(Program& program) : program_(program), source_(program.source) {}

    std::vector<Token> run() {
        while (at_ < source_.size()) read_data();
        push(TokenKind::end, {});
        return std::move(tokens_);
    }

  private:
    [[noreturn]] void fail(const std::string& message) const { fail_parse(program_.where, line_, message); }

    bool looking_at(std::string_view text, size_t offset = 0) const {
        return source_.substr(std::min(at_ + offset, source_.size())).starts_with(text);
    }
    void push(TokenKind kind, std::string_view text) { tokens_.push_back({.kind = kind, .line = line_, .text = text}); }
    // Moves forward, counting lines.
    void skip(size_t bytes) {
        for (size_t i = 0; i < bytes; ++i) line_ += source_[at_ + i] == '\n';
        at_ += bytes;
        line_starting_ = bytes > 0 && source_[at_ - 1] == '\n';
    }
    size_t space_bytes() const {
        const std::string_view rest = source_.substr(at_);
        return rest.size() - strip_left(rest).size();
    }

    // Text up to the next tag, and the tag.
    void read_data() {
        size_t begin = source_.find('{', at_);
        while (begin != std::string_view::npos && !is_tag(begin)) begin = source_.find('{', begin + 1);
        if (begin == std::string_view::npos) {
            push(TokenKind::data, source_.substr(at_));
            return skip(source_.size() - at_);
        }
        const char kind = source_[begin + 1];
        const char sign = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
        push_stripped(source_.substr(at_, begin - at_), sign, kind != '{');
        skip(begin - at_);
        const size_t bytes = 2 + (sign == '-' || sign == '+');
        if (kind == '#') return read_comment(bytes);
        if (kind == '%' && read_raw(bytes)) return;
        push(kind == '%' ? TokenKind::block_begin : TokenKind::variable_begin, {});
        skip(bytes);
        read_tag(kind == '%');
    }
    bool is_tag(size_t at) const {
        if (at + 1 >= source_.size()) return false;
        const char next = source_[at + 1];
        return next == '{' || next == '%' || next == '#';
    }

    void push_stripped(std::string_view text, char sign, bool strips_line) {
        if (sign == '-') {
            text = strip_right(text);
        } else if (sign != '+' && strips_line) {
            const size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
            if ((line > 0 || line_starting_) && strip_left(text.substr(line)).empty()) text = text.substr(0, line);
        }
        if (!text.empty()) push(TokenKind::data, text);
    }

    // "%}" with a sign: the bytes that it takes, white space after it included. 0: it is not here.
    size_t tag_end(std::string_view end, bool trims) {
        const bool keeps = looking_at("+") && trims, strips = looking_at("-");
        if (!looking_at(end, keeps || strips)) return 0;
        const size_t bytes = end.size() + (keeps || strips);
        const std::string_view rest = source_.substr(at_ + bytes);
        if (strips) return bytes + (rest.size() - strip_left(rest).size());
        return bytes + (trims && !keeps && rest.starts_with('\n'));
    }

    void read_comment(size_t begin_bytes) {
        const size_t end = source_.find("#}", at_ + begin_bytes);
        if (end == std::string_view::npos) fail("the comment has no end");
        const bool signed_end = end > at_ + begin_bytes && (source_[end - 1] == '-' || source_[end - 1] == '+');
        skip(end - signed_end - at_);
        skip(tag_end("#}", true));
    }

    // {% raw %} up to {% endraw %}: literal text. Whether there was one.
    bool read_raw(size_t begin_bytes) {
        const size_t begin = at_;
        const int line = line_;
        skip(begin_bytes +
             (source_.substr(at_ + begin_bytes).size() - strip_left(source_.substr(at_ + begin_bytes)).size()));
        if (looking_at("raw")) {
            skip(3);
            skip(space_bytes());
            if (const size_t bytes = tag_end("%}", false)) {
                skip(bytes);
                read_raw_body();
                return true;
            }
        }
        at_ = begin;
        line_ = line;
        return false;
    }
    void read_raw_body() {
        const size_t start = at_;
        const bool starting = line_starting_;
        for (size_t begin = source_.find("{%", at_); begin != std::string_view::npos;
             begin = source_.find("{%", begin + 2)) {
            skip(begin - at_);
            const char sign = at_ + 2 < source_.size() ? source_[at_ + 2] : '\0';
            skip(2 + (sign == '-' || sign == '+'));
            skip(space_bytes());
            if (!looking_at("endraw")) continue;
            skip(6);
            skip(space_bytes());
            const size_t bytes = tag_end("%}", true);
            if (bytes == 0) continue;
            line_starting_ = starting;
            push_stripped(source_.substr(start, begin - start), sign, true);
            return skip(bytes);
        }
        fail("{% raw %} has no {% endraw %}");
    }

    void read_tag(bool is_block) {
        std::string open;  // the brackets that wait for their partners
        for (;;) {
            if (const size_t bytes = open.empty() ? tag_end(is_block ? "%}" : "}}", is_block) : 0) {
                push(is_block ? TokenKind::block_end : TokenKind::variable_end, {});
                return skip(bytes);
            }
            skip(space_bytes());
            if (open.empty() && tag_end(is_block ? "%}" : "}}", is_block) > 0) continue;
            if (at_ >= source_.size()) fail(is_block ? "the tag {% has no %}" : "the tag {{ has no }}");
            const char c = source_[at_];
            if (is_digit(c))
                read_number();
            else if (is_name_start(c))
                read_name();
            else if (c == '"' || c == '\'')
                read_string(c);
            else
                read_mark(open);
        }
    }

    void read_name() {
        size_t bytes = 1;
        while (at_ + bytes < source_.size() && (is_name_start(source_[at_ + bytes]) || is_digit(source_[at_ + bytes])))
            ++bytes;
        if (at_ + bytes < source_.size() && static_cast<unsigned char>(source_[at_ + bytes]) >= 0x80)
            fail("names have ASCII letters alone here");
        push(TokenKind::name, source_.substr(at_, bytes));
        skip(bytes);
    }

    void read_mark(std::string& open) {
        static constexpr std::string_view kMarks[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                      "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                      ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
        for (const std::string_view mark : kMarks) {
            if (!looking_at(mark)) continue;
            if (mark == "(" || mark == "[" || mark == "{") open += mark == "(" ? ')' : mark == "[" ? ']' : '}';
            if (mark == ")" || mark == "]" || mark == "}") {
                if (open.empty() || open.back() != mark[0]) fail(fmt::format("unexpected \"{}\"", mark));
                open.pop_back();
            }
            push(TokenKind::mark, source_.substr(at_, mark.size()));
            return skip(mark.size());
        }
        fail(fmt::format("unexpected character \"{}\"",
                         source_.substr(at_, first_code_point(source_.substr(at_)).bytes)));
    }

    // Digits with single underscores between them, from an offset: the bytes that they take.
    template <typename IsDigit>
    size_t digits(size_t offset, IsDigit is_one) const {
        size_t end = at_ + offset;
        for (size_t i = end; i < source_.size(); ++i) {
            if (is_one(source_[i]))
                end = i + 1;
            else if (source_[i] != '_' || i == at_ + offset || source_[i - 1] == '_')
                break;
        }
        return end - (at_ + offset);
    }
    size_t decimals(size_t offset) const { return digits(offset, is_digit); }

    void read_number() {
        const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
        if (const size_t bytes = after_dot ? 0 : real_bytes()) return push_real(bytes);
        int base = 10;
        size_t prefix = 0, bytes = 0;
        if (looking_at("0") && at_ + 2 < source_.size()) {
            const char kind = static_cast<char>(source_[at_ + 1] | 0x20);
            base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
        }
        if (base != 10) {
            prefix = 2 + (source_[at_ + 2] == '_');
            bytes = digits(prefix, [base](char c) {
                const char low = static_cast<char>(c | 0x20);
                const int value = is_digit(c) ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : 99;
                return value < base;
            });
        }
        if (bytes == 0) {  // no such prefix: a zero alone, or a decimal number
            prefix = 0;
            base = 10;
            bytes = looking_at("0") ? digits(0, [](char c) { return c == '0'; }) : decimals(0);
        }
        push_integer(prefix, bytes, base);
    }
    // The length of a number with a fraction or an exponent; 0: no such number.
    size_t real_bytes() const {
        size_t bytes = decimals(0);
        bool is_real = false;
        if (at_ + bytes < source_.size() && source_[at_ + bytes] == '.') {
            if (const size_t fraction = decimals(bytes + 1)) {
                bytes += 1 + fraction;
                is_real = true;
            }
        }
        if (at_ + bytes < source_.size() && (source_[at_ + bytes] | 0x20) == 'e') {
            const bool has_sign = looking_at("+", bytes + 1) || looking_at("-", bytes + 1);
            if (const size_t exponent = decimals(bytes + 1 + has_sign)) return bytes + 1 + has_sign + exponent;
        }
        return is_real ? bytes : 0;
    }
    std::string without_underscores(size_t offset, size_t bytes) const {
        std::string text(source_.substr(at_ + offset, bytes));
        std::erase(text, '_');
        return text;
    }
    void push_real(size_t bytes) {
        const std::string text = without_underscores(0, bytes);
        push(TokenKind::real, {});
        const auto result = std::from_chars(text.data(), text.data() + text.size(), tokens_.back().real);
        if (result.ec != std::errc()) fail(fmt::format("the number {} is too large or too small", text));
        skip(bytes);
    }
    void push_integer(size_t prefix, size_t bytes, int base) {
        const std::string text = without_underscores(prefix, bytes);
        push(TokenKind::integer, {});
        const auto result = std::from_chars(text.data(), text.data() + text.size(), tokens_.back().whole, base);
        if (result.ec != std::errc()) fail(fmt::format("the number {} does not fit into 64 bits", text));
        skip(prefix + bytes);
    }

    void read_string(char quote) {
        size_t end = at_ + 1;
        while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
        if (end >= source_.size()) fail("the string has no end");
        const std::string_view raw = source_.substr(at_ + 1, end - at_ - 1);
        if (raw.find('\\') == std::string_view::npos) {
            push(TokenKind::string, raw);
        } else {
            program_.texts.push_back(unescape(raw));
            push(TokenKind::string, program_.texts.back());
        }
        skip(end + 1 - at_);
    }

    std::string unescape(std::string_view raw) const {
        static constexpr std::string_view kNames = "\\'\"abfnrtv", kBytes = "\\'\"\a\b\f\n\r\t\v";
        std::string text;
        for (size_t i = 0; i < raw.size();) {
            if (raw[i] != '\\') {
                text += raw[i++];
                continue;
            }
            const char c = raw[i + 1];
            i += 2;
            const size_t hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
            if (hex > 0) {
                append_point(text, raw.substr(i, hex), 16, hex);
                i += hex;
            } else if (c >= '0' && c <= '7') {
                size_t length = 1;
                while (length < 3 && i - 1 + length < raw.size() && raw[i - 1 + length] >= '0' &&
                       raw[i - 1 + length] <= '7')
                    ++length;
                append_point(text, raw.substr(i - 1, length), 8, length);
                i += length - 1;
            } else if (c == 'N') {
                fail("strings with \\N are not supported");
            } else if (c == '\n') {  // a continued line
            } else if (const size_t known = kNames.find(c); known != std::string_view::npos) {
                text += kBytes.substr(known, 1);
            } else if (static_cast<unsigned char>(c) >= 0x80) {  // Python would write its number there
                fail("a backslash before a letter outside ASCII is not supported");
            } else {
                text += '\\';
                text += c;
            }
        }
        return text;
    }
    void append_point(std::string& text, std::string_view digits_text, int base, size_t length) const {
        uint32_t value = 0;
        const char* const end = digits_text.data() + digits_text.size();
        const auto result = std::from_chars(digits_text.data(), end, value, base);
        const bool is_point = value < 0xD800 || (value > 0xDFFF && value <= 0x10FFFF);
        if (digits_text.size() != length || result.ec != std::errc() || result.ptr != end || !is_point)
            fail("the string has an escape that names no character");
        append_utf8(text, value);
    }

    Program& program_;
    const std::string_view source_;
    size_t at_ = 0;
    int line_ = 1;
    bool line_starting_ = true;
    std::vector<Token> tokens_;
};

// One kind of newline, and none at the end.
std::string normalized(std::string_view source) {
    std::string text;
    for (size_t i = 0; i < source.size(); ++i) {
        if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
        text += source[i] == '\r' ? '\n' : source[i];
    }
    if (text.ends_with('\n')) text.pop_back();
    return text;
}

}  // namespace

void fail_parse(std::string_view where, int line, const std::string& message) {
    throw UserError(ExitCode::model, fmt::format("{}:{}", where, line), "the chat template cannot be used: {}",
                    excerpt(message))
        .hint("give a simpler template (chat_template: FILE), or prepare the rows with the template's own program");
}

std::vector<Token> tokenize(Program& program) {
    if (program.source.size() > kSourceBytesMax)
        fail_parse(program.where, 1,
                   fmt::format("it has {} bytes, more than {}", program.source.size(), kSourceBytesMax));
    if (!is_valid_utf8(program.source)) fail_parse(program.where, 1, "it is not valid UTF-8");
    program.source = normalized(program.source);
    return Lexer(program).run();
}

}  // namespace windlass::jinja
