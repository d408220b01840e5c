#include "base/markdown.h"

#include <algorithm>
#include <cstdint>

#include "base/markdown_text.h"
#include "base/text_cuts.h"

namespace windlass {
namespace {

constexpr size_t kCodeIndent = 4;
constexpr std::string_view kUnderlines = "=-";  // of headings of the first and the second level

size_t indent_of(std::string_view line) {
    return std::min(line.find_first_not_of(' '), line.size());
}

std::string_view without_indent(std::string_view line) {
    return line.substr(indent_of(line));
}

bool is_fence(std::string_view line) {
    return without_indent(line).starts_with("```");
}

// The level of a heading; 0 for other lines.
size_t heading_level(std::string_view line) {
    const size_t level = std::min(line.find_first_not_of('#'), line.size());
    return level > 0 && level <= 6 && level < line.size() && line[level] == ' ' ? level : 0;
}

// The length of "- " or "12. " after the indentation; 0 for a line that begins no item.
size_t item_marker(std::string_view line) {
    const std::string_view text = without_indent(line);
    if (text.size() > 1 && (text[0] == '-' || text[0] == '*' || text[0] == '+') && text[1] == ' ') return 2;
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    return digits > 0 && text.substr(digits).starts_with(". ") ? digits + 2 : 0;
}

bool is_table(std::string_view line) {
    return without_indent(line).starts_with("|");
}

bool is_comment(std::string_view line) {
    return without_indent(line).starts_with("<!--");
}

bool begins_block(std::string_view line) {
    return without_indent(line).empty() || is_fence(line) || heading_level(line) > 0 || item_marker(line) > 0 ||
           is_table(line) || is_comment(line);
}

enum class BlockKind : uint8_t { heading, paragraph, item, table, code };

struct Block {
    BlockKind kind = BlockKind::paragraph;
    size_t level = 0;   // of a heading
    size_t indent = 0;  // of the text; an item's marker is before it
    std::string marker;
    std::vector<std::string_view> lines;  // of a table and of code
    std::string text;                     // of others, in one line
    bool is_tight = false;                // no empty line before it
};

class BlockReader {
  public:
    explicit BlockReader(std::string_view page) : lines_(split(page, '\n')) {}

    std::vector<Block> read() {
        while (at_ < lines_.size()) {
            const std::string_view line = lines_[at_];
            if (without_indent(line).empty())
                after_blank_ = true, ++at_;
            else
                take_block(line);
        }
        return std::move(blocks_);
    }

  private:
    void take_block(std::string_view line) {
        if (is_comment(line)) return skip_comment();
        const BlockKind kind = kind_of(line);
        Block& block = blocks_.emplace_back();
        block.kind = kind;
        block.is_tight = !after_blank_;
        after_blank_ = false;
        if (block.kind == BlockKind::code) return is_fence(line) ? take_fence(block) : take_indented(block);
        if (block.kind == BlockKind::table) return take_table(block);
        if (block.kind == BlockKind::heading) {
            block.level = heading_level(line);
            block.text = line.substr(block.level + 1);
            ++at_;
            return;
        }
        const size_t marker = item_marker(line);
        block.indent = indent_of(line) + marker;
        block.marker = line.substr(indent_of(line), marker);
        block.text = line.substr(block.indent);
        while (++at_ < lines_.size() && !begins_block(lines_[at_]))
            (block.text += ' ').append(without_indent(lines_[at_]));
    }
    BlockKind kind_of(std::string_view line) const {
        if (heading_level(line) > 0) return BlockKind::heading;
        if (is_table(line) && at_ + 1 < lines_.size() && is_table(lines_[at_ + 1])) return BlockKind::table;
        if (is_fence(line)) return BlockKind::code;
        if (item_marker(line) > 0 && (indent_of(line) < kCodeIndent || follows_item())) return BlockKind::item;
        return indent_of(line) >= kCodeIndent && !follows_item() ? BlockKind::code : BlockKind::paragraph;
    }
    bool follows_item() const { return !blocks_.empty() && blocks_.back().kind == BlockKind::item; }
    void skip_comment() {
        while (at_ < lines_.size() && lines_[at_].find("-->") == std::string_view::npos) ++at_;
        ++at_;
    }
    void take_fence(Block& block) {
        block.indent = indent_of(lines_[at_]);
        while (++at_ < lines_.size() && !is_fence(lines_[at_]))
            block.lines.push_back(lines_[at_].substr(std::min(block.indent, indent_of(lines_[at_]))));
        ++at_;
    }
    void take_indented(Block& block) {
        for (; at_ < lines_.size() && (indent_of(lines_[at_]) >= kCodeIndent || lines_[at_].empty()); ++at_)
            block.lines.push_back(lines_[at_].substr(std::min(kCodeIndent, lines_[at_].size())));
        while (block.lines.back().empty()) block.lines.pop_back(), after_blank_ = true;
    }
    void take_table(Block& block) {
        for (; at_ < lines_.size() && is_table(lines_[at_]); ++at_) block.lines.push_back(lines_[at_]);
    }

    std::vector<std::string_view> lines_;
    size_t at_ = 0;
    bool after_blank_ = false;
    std::vector<Block> blocks_;
};

// Marks as escape sequences, or taken out.
std::string with_style(std::string_view marked, bool is_styled) {
    std::string made;
    for (const char c : marked) {
        if (c != kBoldBegin && c != kBoldEnd)
            made += c;
        else if (is_styled)
            made += c == kBoldBegin ? "\x1b[1m" : "\x1b[22m";
    }
    return made;
}

std::string heading_text(const Block& block, const MarkdownStyle& style) {
    const std::string text = with_style(inline_markdown(block.text, CodeSpans::bold), false);
    if (style.is_styled) return (block.level == 1 ? "\x1b[1;4m" : "\x1b[1m") + text + "\x1b[0m\n";
    std::string made = text + "\n";
    if (block.level <= kUnderlines.size()) made += std::string(marked_width(text), kUnderlines[block.level - 1]) + "\n";
    return made;
}

std::string code_text(const Block& block) {
    std::string made;
    for (const std::string_view line : block.lines)
        made += line.empty() ? "\n" : std::string(kCodeIndent + block.indent, ' ').append(line) + "\n";
    return made;
}

std::string wrapped_text(const Block& block, const MarkdownStyle& style) {
    const size_t width = style.width - std::min(style.width / 2, block.indent);
    std::string made, head = std::string(block.indent - block.marker.size(), ' ') + block.marker;
    const CodeSpans code = style.is_styled ? CodeSpans::bold : CodeSpans::backticks;
    for (const std::string& line : wrap_marked(inline_markdown(block.text, code), width)) {
        made += head + line + "\n";
        head.assign(block.indent, ' ');
    }
    return with_style(made, style.is_styled);
}

std::string block_text(const Block& block, const MarkdownStyle& style) {
    if (block.kind == BlockKind::heading) return heading_text(block, style);
    if (block.kind == BlockKind::code) return code_text(block);
    if (block.kind == BlockKind::table) return with_style(table_markdown(block.lines, style.width), style.is_styled);
    return wrapped_text(block, style);
}

}  // namespace

std::string render_markdown(std::string_view page, const MarkdownStyle& style) {
    std::string made;
    BlockKind last = BlockKind::heading;
    for (const Block& block : BlockReader(page).read()) {
        const bool is_next_item = block.is_tight && (block.kind == BlockKind::item || last == BlockKind::item);
        if (!made.empty() && !is_next_item) made += '\n';
        made += block_text(block, style);
        last = block.kind;
    }
    return made;
}

std::string first_sentence(std::string_view page) {
    for (const Block& block : BlockReader(page).read()) {
        if (block.kind != BlockKind::paragraph) continue;
        std::string text = with_style(inline_markdown(block.text, CodeSpans::bold), false);
        for (size_t end = text.find('.'); end != text.npos; end = text.find('.', end + 1))
            if (end + 1 == text.size() || text[end + 1] == ' ') return text.substr(0, end + 1);
        if (text.ends_with(':')) text.back() = '.';  // a sentence that leads to a table or to code
        return text;
    }
    return "";
}

std::vector<std::string> link_targets(std::string_view page) {
    std::vector<std::string> targets;
    for (size_t at = page.find("]("); at != page.npos; at = page.find("](", at + 2)) {
        const size_t end = page.find_first_of("#) \n", at + 2);
        std::string target(page.substr(at + 2, std::min(end, page.size()) - at - 2));
        if (!target.empty() && std::ranges::find(targets, target) == targets.end())
            targets.push_back(std::move(target));
    }
    return targets;
}

}  // namespace windlass
