#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/markdown_text.h"

namespace windlass {
namespace {

constexpr size_t kColumnGap = 2;
constexpr size_t kNarrowestColumn = 14;  // that cells are wrapped into
constexpr size_t kRowIndent = 4;

using TableRow = std::vector<std::string>;  // cells, marked

// Between the bars of a line; "\|" is no bar.
TableRow cells_of(std::string_view line) {
    TableRow cells;
    std::string cell;
    const auto close = [&] {
        const size_t begin = cell.find_first_not_of(' '), end = cell.find_last_not_of(' ');
        const std::string text = begin == cell.npos ? "" : cell.substr(begin, end - begin + 1);
        cells.push_back(inline_markdown(text, CodeSpans::bold));
        cell.clear();
    };
    line.remove_prefix(line.find('|') + 1);
    for (size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|')
            cell += line[++i];
        else if (line[i] == '|')
            close();
        else
            cell += line[i];
    }
    if (cell.find_first_not_of(' ') != cell.npos) close();
    return cells;
}

size_t longest_word(std::string_view text) {
    size_t longest = 0;
    while (!text.empty()) {
        const size_t space = std::min(text.find(' '), text.size());
        longest = std::max(longest, marked_width(text.substr(0, space)));
        text.remove_prefix(std::min(space + 1, text.size()));
    }
    return longest;
}

// The width of each column; none where they do not fit.
std::vector<size_t> column_widths(const std::vector<TableRow>& rows, size_t width) {
    const size_t columns = rows[0].size(), gaps = kColumnGap * (columns - 1);
    std::vector<size_t> whole(columns), least(columns), fitted(columns);
    for (const TableRow& row : rows)
        for (size_t i = 0; i < columns; ++i) {
            whole[i] = std::max(whole[i], marked_width(row[i]));
            least[i] = std::max(least[i], longest_word(row[i]));
        }
    for (size_t most = *std::ranges::max_element(whole); most > 0; --most) {
        bool is_narrow = false;
        for (size_t i = 0; i < columns; ++i) {
            fitted[i] = std::max(least[i], std::min(whole[i], most));
            is_narrow |= fitted[i] < std::min(whole[i], kNarrowestColumn);
        }
        if (is_narrow) break;
        if (std::accumulate(fitted.begin(), fitted.end(), gaps) <= width) return fitted;
    }
    return {};
}

std::string padded(const std::string& text, size_t width, bool right) {
    const std::string blanks(width - std::min(width, marked_width(text)), ' ');
    return right ? blanks + text : text + blanks;
}

void trim_end(std::string& line) {
    line.erase(line.find_last_not_of(' ') + 1);
}

std::string aligned_row(const TableRow& row, const std::vector<size_t>& widths, const std::vector<bool>& right) {
    std::vector<std::vector<std::string>> cells;
    size_t lines = 1;
    for (size_t i = 0; i < row.size(); ++i) {
        cells.push_back(wrap_marked(row[i], widths[i]));
        lines = std::max(lines, cells.back().size());
    }
    std::string made;
    for (size_t line = 0; line < lines; ++line) {
        std::string text;
        for (size_t i = 0; i < cells.size(); ++i) {
            if (i > 0) text.append(kColumnGap, ' ');
            text += padded(line < cells[i].size() ? cells[i][line] : "", widths[i], right[i]);
        }
        trim_end(text);
        made += text + "\n";
    }
    return made;
}

// "first cell", and below it "head: cell" for each of the others.
std::string stacked_row(const TableRow& heads, const TableRow& row, size_t width) {
    std::string made;
    for (const std::string& line : wrap_marked(row[0], width)) made += line + "\n";
    const std::string indent(kRowIndent, ' ');
    for (size_t i = 1; i < row.size(); ++i) {
        if (row[i].empty()) continue;
        const std::string text = heads[i].empty() ? row[i] : fmt::format("{}: {}", heads[i], row[i]);
        for (const std::string& line : wrap_marked(text, width - kRowIndent)) made += indent + line + "\n";
    }
    return made;
}

}  // namespace

std::string table_markdown(const std::vector<std::string_view>& lines, size_t width) {
    std::vector<TableRow> rows;
    std::vector<bool> right;
    for (size_t i = 0; i < lines.size(); ++i) {
        TableRow row = cells_of(lines[i]);
        if (i == 1)
            for (const std::string& cell : row) right.push_back(cell.ends_with(':') && !cell.starts_with(':'));
        else
            rows.push_back(std::move(row));
        if (i != 1) rows.back().resize(rows[0].size());
    }
    right.resize(rows[0].size());
    const std::vector<size_t> widths = column_widths(rows, width);
    std::string made;
    if (widths.empty()) {
        for (size_t i = 1; i < rows.size(); ++i) made += stacked_row(rows[0], rows[i], width);
        return made;
    }
    made = aligned_row(rows[0], widths, right);
    TableRow rules;
    for (const size_t each : widths) rules.emplace_back(each, '-');
    made += aligned_row(rules, widths, right);
    for (size_t i = 1; i < rows.size(); ++i) made += aligned_row(rows[i], widths, right);
    return made;
}

}  // namespace windlass
