// markdown_text.h: pieces that markdown.cpp and markdown_table.cpp share: text with marks where bold begins and ends.
//
// Marks are characters that no page has, and take no column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace windlass {

inline constexpr char kBoldBegin = '\x01', kBoldEnd = '\x02';

// Columns that a text with marks takes.
size_t marked_width(std::string_view text);
// Lines of at most `width` columns, broken at blanks; a longer word is a line of its own.
std::vector<std::string> wrap_marked(std::string_view text, size_t width);

// What shows that words are code: bold, or their backticks.
enum class CodeSpans : uint8_t { bold, backticks };

// A line of Markdown without its links; emphasis and code are marked.
std::string inline_markdown(std::string_view text, CodeSpans code);

// "| a | b |" lines, of which the second says how columns are aligned: aligned columns, with wrapped cells if need be;
// where these are too narrow, a group of lines for each row.
std::string table_markdown(const std::vector<std::string_view>& lines, size_t width);

}  // namespace windlass
