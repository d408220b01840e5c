// markdown.h: a page of Markdown as text for a terminal.
//
// It knows what pages of this project use: headings, paragraphs, lists, tables, code, links, emphasis, comments. Text
// is wrapped to the width, but for code. A link becomes its text; one to another host keeps its address. Pure; any
// thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace windlass {

struct MarkdownStyle {
    size_t width = 80;       // columns
    bool is_styled = false;  // by escape sequences: bold headings, emphasis and code. Else headings are underlined
};

std::string render_markdown(std::string_view page, const MarkdownStyle& style);

// Of the first paragraph, without marks; empty for a page without one.
std::string first_sentence(std::string_view page);

// Targets of the links, without anchors, in order, each once.
std::vector<std::string> link_targets(std::string_view page);

}  // namespace windlass
