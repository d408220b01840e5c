#include "rows/row_reader.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/json.h"
#include "base/utf8.h"
#include "rows/data_kind.h"

namespace windlass {
namespace {

constexpr size_t kColumnsMax = 1024;  // of a table

std::string_view without_return(std::string_view line) {
    return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

// At most one more than a table may have.
std::vector<std::string> cells_of(std::string_view line) {
    line = without_return(line);
    std::vector<std::string> cells;
    for (size_t begin = 0; begin <= line.size() && cells.size() <= kColumnsMax;) {
        const size_t end = std::min(line.find('\t', begin), line.size());
        cells.emplace_back(line.substr(begin, end - begin));
        begin = end + 1;
    }
    return cells;
}

// "owner/name": a data set of the Hugging Face Hub, so it seems.
bool is_hub_name(std::string_view path) {
    const size_t slash = path.find('/');
    const auto is_plain = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
    };
    return slash != std::string_view::npos && slash > 0 && slash + 1 < path.size() &&
           path.find('/', slash + 1) == std::string_view::npos && is_plain(path[0]) &&
           std::all_of(path.begin() + static_cast<std::ptrdiff_t>(slash) + 1, path.end(), is_plain);
}

// The first line of JSON that is laid out for people.
void refuse_opening_line(RawRow& row) {
    const size_t begin = row.text.find_first_not_of(" \t"), end = row.text.find_last_not_of(" \t\r");
    if (begin != end || (row.text[begin] != '{' && row.text[begin] != '[')) return;
    row.fault = fmt::format(
        "the line holds \"{}\" alone: rows are one JSON object a line, or the objects of one array "
        "in a .json file",
        row.text[begin]);
    row.hint = "jq -c . FILE > NEW.jsonl, which writes each object in one line";
}

bool is_blank(std::string_view line) {
    return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

const std::string& RawRow::text_or_refusal(std::string_view where) const {
    if (!fault.empty()) throw UserError(ExitCode::data, where, "{}", fault).hint(hint);
    return text;
}

template <typename... Args>
void RowReader::fail(int64_t line, fmt::format_string<Args...> format, Args&&... args) const {
    throw UserError(ExitCode::data, fmt::format("{}:{}", path_, line), "{}",
                    fmt::format(format, std::forward<Args>(args)...));
}

std::unique_ptr<File> open_data_file(FileSystem& files, const std::string& path) {
    if (!files.exists(path)) {
        if (is_hub_name(path))
            throw UserError(ExitCode::data, path, "there is no such file, and data sets are not fetched")
                .hint(fmt::format("a path from the folder in which windlass was started; if it is a data set of the "
                                  "Hub: hf download {} --repo-type dataset --local-dir {}",
                                  path, path.substr(path.find('/') + 1)));
        throw UserError(ExitCode::data, path, "there is no such file")
            .hint("a path from the folder in which windlass was started, or a whole path");
    }
    return files.open(path, {});
}

RowReader::RowReader(FileSystem& files, std::string path, std::string document_separator)
    : path_(std::move(path)), separator_(std::move(document_separator)) {
    std::unique_ptr<File> file = open_data_file(files, path_);
    const DataKind kind = data_kind(path_);
    source_ = make_byte_source(std::move(file), kind.compression);
    peek();
    refuse_what_is_no_text(path_, kind.compression, buffer_);
    if (std::string_view(buffer_).starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    switch (kind.layout) {
        case RowLayout::lines:
            break;
        case RowLayout::json:
            if (skip_space() == '[') layout_ = Layout::array;
            break;
        case RowLayout::tabs:
            layout_ = Layout::tabs;
            break;
        case RowLayout::csv:
            layout_ = Layout::csv;
            csv_ = std::make_unique<CsvRows>(path_, kRowBytesMax, kColumnsMax);
            break;
        case RowLayout::documents:
            layout_ = Layout::documents;
            break;
    }
}

int RowReader::peek() {
    if (at_ == buffer_.size()) {
        if (!source_->read(buffer_, line_)) return -1;
        at_ = 0;
    }
    return static_cast<unsigned char>(buffer_[at_]);
}

int RowReader::take() {
    const int byte = peek();
    if (byte < 0) return byte;
    ++at_;
    line_ += byte == '\n';
    return byte;
}

int RowReader::skip_space() {
    int byte = peek();
    for (; byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; byte = peek()) take();
    return byte;
}

std::optional<RawRow> RowReader::next() {
    switch (layout_) {
        case Layout::lines: {
            std::optional<RawRow> row = next_line();
            if (row) refuse_opening_line(*row);
            return row;
        }
        case Layout::array:
            return next_element();
        case Layout::tabs:
        case Layout::csv:
            return next_object();
        case Layout::documents: {
            std::optional<RawRow> row = next_document();
            if (row) look_for_other_bytes(row->text, row->line);
            return row;
        }
    }
    return std::nullopt;
}

bool RowReader::read_line(std::string& line, int64_t bytes_max) {
    line.clear();
    if (peek() < 0) return false;
    for (bool ended = false; !ended && peek() >= 0;) {
        const size_t end = buffer_.find('\n', at_);
        ended = end != std::string::npos;
        line.append(buffer_, at_, (ended ? end : buffer_.size()) - at_);
        at_ = ended ? end + 1 : buffer_.size();
        if (static_cast<int64_t>(line.size()) > bytes_max) fail(line_, "the line is longer than {} bytes", bytes_max);
        line_ += ended;
    }
    return true;
}

std::optional<RawRow> RowReader::next_line() {
    RawRow row;
    do {
        row.line = line_;
        if (!read_line(row.text, kRowBytesMax)) return std::nullopt;
    } while (is_blank(row.text));
    return row;
}

std::optional<CellRow> RowReader::next_cells() {
    if (layout_ == Layout::csv) return next_csv_cells();
    const std::optional<RawRow> row = next_line();
    if (!row) return std::nullopt;
    return CellRow{row->line, cells_of(row->text)};
}

std::optional<CellRow> RowReader::next_csv_cells() {
    while (!csv_->has_row() && !finished_) {
        if (peek() < 0) {
            finished_ = true;
            csv_->finish();
            continue;
        }
        const size_t end = std::min(buffer_.find_first_of("\r\n", at_), buffer_.size() - 1) + 1;
        const std::string_view piece = std::string_view(buffer_).substr(at_, end - at_);
        csv_->add(piece, line_);
        at_ = end;
        // "\r\n" ends one line.
        line_ += piece.back() == '\r' || (piece.back() == '\n' && !(piece.size() == 1 && after_return_));
        after_return_ = piece.back() == '\r';
    }
    if (!csv_->has_row()) return std::nullopt;
    return csv_->take();
}

void RowReader::take_names(CellRow&& row) {
    names_ = std::move(row.cells);
    if (names_.size() > kColumnsMax) fail(row.line, "the table has more than {} columns", kColumnsMax);
    std::set<std::string_view> seen;
    for (const std::string& name : names_) {
        // Spreadsheets leave empty columns after the last one.
        if (!name.empty() && !seen.insert(name).second) fail(row.line, "two columns have the same name, \"{}\"", name);
    }
    if (layout_ == Layout::csv && names_.size() == 1 && names_[0].find_first_of(";\t") != std::string::npos)
        throw UserError(ExitCode::data, fmt::format("{}:{}", path_, row.line),
                        "the first line names one column: cells of .csv lie between commas")
            .hint("save it with commas; if tabs separate the cells, name it .tsv");
}

std::optional<RawRow> RowReader::next_object() {
    std::optional<CellRow> row = next_cells();
    if (row && names_.empty()) {
        take_names(*std::move(row));
        row = next_cells();
    }
    if (!row) return std::nullopt;
    if (row->cells.size() != names_.size())
        return RawRow{
            .line = row->line,
            .fault = fmt::format("the row has {} cells, the first line names {}", row->cells.size(), names_.size()),
            .hint = "a cell for each column (in .csv, quotes around one that holds a comma)"};
    SortedJson object = SortedJson::object();
    for (size_t i = 0; i < names_.size(); ++i) {
        look_for_other_bytes(row->cells[i], row->line);
        if (!names_[i].empty()) object[names_[i]] = std::move(row->cells[i]);
    }
    return RawRow{.line = row->line, .text = object.dump(-1, ' ', false, SortedJson::error_handler_t::replace)};
}

void RowReader::look_for_other_bytes(std::string_view text, int64_t line) {
    if (replaced_line_ || is_valid_utf8(text)) return;
    for (size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1, ++line) {
        end = text.find('\n', begin);
        if (is_valid_utf8(text.substr(begin, end - begin))) continue;
        replaced_line_ = line;
        return;
    }
}

// The array is cut by brackets and strings alone; the parser of the elements checks the rest.
std::optional<RawRow> RowReader::next_element() {
    if (finished_) return std::nullopt;
    if (!started_) take();  // '['
    int byte = skip_space();
    if (started_ && byte == ',') {
        take();
        byte = skip_space();
        if (byte == ']') fail(line_, "the array of rows has a comma without a row after it");
    } else if (started_ && byte != ']') {
        fail(line_, "the array of rows ends without ']' or lacks a comma");
    }
    if (byte == ']') {
        take();
        if (skip_space() >= 0) fail(line_, "something follows the array of rows");
        finished_ = true;
        return std::nullopt;
    }
    started_ = true;
    RawRow row{.line = line_};
    read_element(row.text);
    return row;
}

void RowReader::read_element(std::string& text) {
    const int64_t start = line_;
    int depth = 0;
    bool in_string = false;
    for (int byte = peek(); byte >= 0; byte = peek()) {
        if (!in_string && depth == 0 && (byte == ',' || byte == ']')) return;
        text.push_back(static_cast<char>(take()));
        if (static_cast<int64_t>(text.size()) > kRowBytesMax)
            fail(start, "the row is longer than {} bytes", kRowBytesMax);
        if (in_string && byte == '\\' && peek() >= 0) text.push_back(static_cast<char>(take()));
        if (byte == '"') in_string = !in_string;
        if (in_string) continue;
        if (byte == '{' || byte == '[') ++depth;
        if (byte == '}' || byte == ']') --depth;
    }
    fail(start, "the file ends inside this row");
}

// Blank lines next to a separator belong to neither document.
std::optional<RawRow> RowReader::next_document() {
    RawRow row{.line = line_};
    const auto ends_document = [&] {
        while (!row.text.empty() && (row.text.back() == '\n' || row.text.back() == '\r')) row.text.pop_back();
        return !row.text.empty();
    };
    std::string line;
    bool first = true;
    while (read_line(line, kRowBytesMax)) {
        if (!separator_.empty() && without_return(line) == separator_) {
            if (ends_document()) return row;
            row.line = line_;
            first = true;
            continue;
        }
        if (first && !separator_.empty() && without_return(line).empty()) continue;
        if (!first) row.text += '\n';
        row.text += line;
        first = false;
        if (static_cast<int64_t>(row.text.size()) > kRowBytesMax)
            fail(row.line,
                 "the document is longer than {} bytes; set document_separator to cut the file into documents, or use "
                 ".jsonl",
                 kRowBytesMax);
    }
    if (separator_.empty() ? row.text.empty() : !ends_document()) return std::nullopt;
    // The text of a whole file keeps its last line end.
    if (separator_.empty() && buffer_.ends_with('\n')) row.text += '\n';
    return row;
}

}  // namespace windlass
