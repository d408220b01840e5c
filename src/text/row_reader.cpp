#include "text/row_reader.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/json.h"

namespace windlass {
namespace {

constexpr int64_t kBufferBytes = int64_t{1} << 20;
constexpr size_t kColumnsMax = 1024;  // of a table
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

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

bool is_blank(std::string_view line) {
    return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

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
    const size_t dot = path_.find_last_of("./");
    const std::string ending = dot == std::string::npos || path_[dot] == '/' ? "" : path_.substr(dot);
    if (ending != ".jsonl" && ending != ".ndjson" && ending != ".json" && ending != ".tsv" && ending != ".txt")
        throw UserError(ExitCode::data, path_, "the kind of file \"{}\" is not read", ending)
            .hint("convert it to .jsonl (one JSON object a line), .json (an array of objects), .tsv or .txt");
    file_ = open_data_file(files, path_);
    size_ = file_->size();
    peek();
    if (std::string_view(buffer_).starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    if (ending == ".txt")
        layout_ = Layout::documents;
    else if (ending == ".tsv")
        layout_ = Layout::table;
    else if (ending == ".json" && skip_space() == '[')
        layout_ = Layout::array;
}

int RowReader::peek() {
    if (at_ == buffer_.size()) {
        const int64_t bytes = std::min(kBufferBytes, size_ - offset_);
        if (bytes <= 0) return -1;
        buffer_.resize(static_cast<size_t>(bytes));
        file_->read_at(std::as_writable_bytes(std::span(buffer_)), offset_);
        offset_ += bytes;
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
        case Layout::lines:
            return next_line();
        case Layout::array:
            return next_element();
        case Layout::table:
            return next_cells();
        case Layout::documents:
            return next_document();
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

std::optional<RawRow> RowReader::next_cells() {
    std::optional<RawRow> row = next_line();
    if (row && names_.empty()) {
        names_ = cells_of(row->text);
        if (names_.size() > kColumnsMax) fail(row->line, "the table has more than {} columns", kColumnsMax);
        if (std::set<std::string>(names_.begin(), names_.end()).size() != names_.size())
            fail(row->line, "two columns have the same name");
        row = next_line();
    }
    if (!row) return row;
    const std::vector<std::string> cells = cells_of(row->text);
    if (cells.size() != names_.size())
        fail(row->line, "the row has {} cells, the first line names {}", cells.size(), names_.size());
    SortedJson object = SortedJson::object();
    for (size_t i = 0; i < cells.size(); ++i) object[names_[i]] = cells[i];
    row->text = object.dump(-1, ' ', false, SortedJson::error_handler_t::replace);
    return row;
}

// The array is cut by brackets and strings alone; whoever parses the elements checks the rest.
std::optional<RawRow> RowReader::next_element() {
    if (finished_) return std::nullopt;
    if (!started_) take();  // '['
    int byte = skip_space();
    if (started_ && byte == ',') {
        take();
        byte = skip_space();
        if (byte == ']') fail(line_, "the array of rows has a comma without a row behind it");
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
    RawRow row{line_, {}};
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

// Blank lines beside a separator belong to neither document.
std::optional<RawRow> RowReader::next_document() {
    RawRow row{line_, {}};
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
    if (separator_.empty() && size_ > 0 && buffer_.ends_with('\n')) row.text += '\n';
    return row;
}

}  // namespace windlass
