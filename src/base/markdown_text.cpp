#include "base/markdown_text.h"

#include <algorithm>
#include <cctype>

namespace windlass {
namespace {

bool is_continuation(char c) {
    return (static_cast<unsigned char>(c) & 0xC0) == 0x80;  // of a character in UTF-8
}

bool is_word(std::string_view text, size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || (text[at] & 0x80) != 0);
}

bool is_blank(std::string_view text, size_t at) {
    return at >= text.size() || text[at] == ' ';
}

// A single star here opens emphasis; one in "*lora_B*" belongs to a pattern.
bool may_open(std::string_view text, size_t at) {
    return (at == 0 || text[at - 1] == ' ' || text[at - 1] == '(') && is_word(text, at + 1);
}

// Reads one line of Markdown, and appends it with marks.
class InlineReader {
  public:
    InlineReader(std::string_view text, CodeSpans code) : text_(text), code_(code) {}

    std::string read() {
        while (at_ < text_.size())
            if (!take_escape() && !take_code() && !take_link() && !take_emphasis()) made_ += text_[at_++];
        return made_;
    }

  private:
    bool take_escape() {
        if (text_[at_] != '\\' || at_ + 1 == text_.size() ||
            std::ispunct(static_cast<unsigned char>(text_[at_ + 1])) == 0)
            return false;
        made_ += text_[at_ + 1];
        at_ += 2;
        return true;
    }
    // Between two equal runs of backticks.
    bool take_code() {
        if (text_[at_] != '`') return false;
        const size_t begin = std::min(text_.find_first_not_of('`', at_), text_.size());
        const std::string_view fence = text_.substr(at_, begin - at_);
        const size_t end = text_.find(fence, begin);
        if (end == text_.npos) return false;
        std::string_view code = text_.substr(begin, end - begin);
        if (fence.size() > 1 && code.size() > 2 && code.front() == ' ' && code.back() == ' ')
            code = code.substr(1, code.size() - 2);
        const bool is_bold = code_ == CodeSpans::bold;
        (made_ += is_bold ? kBoldBegin : '`').append(code) += is_bold ? kBoldEnd : '`';
        at_ = end + fence.size();
        return true;
    }
    // "[text](target)"; of a picture, the text in its place.
    bool take_link() {
        const size_t open = at_ + (text_[at_] == '!' ? 1 : 0);
        if (open >= text_.size() || text_[open] != '[') return false;
        const size_t middle = text_.find("](", open), end = text_.find(')', middle);
        if (middle == text_.npos || end == text_.npos) return false;
        const std::string_view text = text_.substr(open + 1, middle - open - 1);
        const std::string_view target = text_.substr(middle + 2, end - middle - 2);
        made_ += InlineReader(text, code_).read();
        if (target.find("://") != target.npos && target != text) (made_ += " (").append(target) += ')';
        at_ = end + 1;
        return true;
    }
    bool take_emphasis() {
        if (text_[at_] != '*') return false;
        const bool is_double = at_ + 1 < text_.size() && text_[at_ + 1] == '*';
        const bool opens = !is_bold_ && (is_double || may_open(text_, at_));
        const bool closes = is_bold_ && at_ > 0 && !is_blank(text_, at_ - 1);
        if (!opens && !closes) return false;
        if (opens && text_.find(is_double ? "**" : "*", at_ + 2) == text_.npos) return false;
        made_ += opens ? kBoldBegin : kBoldEnd;
        is_bold_ = opens;
        at_ += is_double ? 2 : 1;
        return true;
    }

    std::string_view text_;
    CodeSpans code_;
    size_t at_ = 0;
    bool is_bold_ = false;
    std::string made_;
};

}  // namespace

size_t marked_width(std::string_view text) {
    return static_cast<size_t>(
        std::ranges::count_if(text, [](char c) { return c != kBoldBegin && c != kBoldEnd && !is_continuation(c); }));
}

std::vector<std::string> wrap_marked(std::string_view text, size_t width) {
    std::vector<std::string> lines(1);
    size_t used = 0;
    while (!text.empty()) {
        const size_t space = std::min(text.find(' '), text.size());
        const std::string_view word = text.substr(0, space);
        text.remove_prefix(std::min(space + 1, text.size()));
        if (word.empty()) continue;
        const size_t columns = marked_width(word);
        if (used > 0 && used + 1 + columns > width) {
            lines.emplace_back();
            used = 0;
        }
        if (used > 0) lines.back() += ' ';
        lines.back() += word;
        used += columns + (used > 0 ? 1 : 0);
    }
    return lines;
}

std::string inline_markdown(std::string_view text, CodeSpans code) {
    return InlineReader(text, code).read();
}

}  // namespace windlass
