// row_reader.h: cuts a data file into raw rows, front to back, in bounded memory.
//
// .jsonl: one row a line, blank lines skipped. .json: the elements of one array; a file that does not start with '['
// is read as lines. .tsv and .csv: a row of names, then rows of as many cells; each comes as a JSON object of texts,
// and one of more or fewer cells with its fault instead.
// .txt: one document, or documents that end at lines holding only a separator. Any of them may be compressed
// (rows/data_kind.h); lines are counted in the text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "rows/byte_source.h"
#include "rows/csv_rows.h"

namespace windlass {

// Of one row or document: what bounds the memory of tokenising it, about 32 bytes for each of its bytes at worst.
inline constexpr int64_t kRowBytesMax = int64_t{64} << 20;

struct RawRow {
    int64_t line = 0;  // on which it starts, counted from 1
    std::string text;
    std::string fault;  // why it is no row, by its shape alone
    std::string hint;   // with a fault: the way out

    // The text; UserError(data) where there is a fault. The rows after it can be read all the same.
    const std::string& text_or_refusal(std::string_view where) const;
};

// UserError(data) when it does not exist.
std::unique_ptr<File> open_data_file(FileSystem& files, const std::string& path);

class RowReader {
  public:
    // Throws UserError(data) if there is no such file, if the name has no known kind, or if the file is of
    // another.
    RowReader(FileSystem& files, std::string path, std::string document_separator);
    // The next row, nothing at the end. Throws UserError(data) that names file and line when a row is longer than
    // allowed or the array around it is broken.
    std::optional<RawRow> next();
    // Whether rows are plain text, not JSON.
    bool is_text() const { return layout_ == Layout::documents; }
    // The first line of text, or of a table, that had bytes which are no UTF-8, until now.
    std::optional<int64_t> replaced_line() const { return replaced_line_; }
    // How much text came of how many compressed bytes until now; empty where the file is not compressed.
    std::string expansion() const { return source_->expansion(); }

  private:
    enum class Layout { lines, array, tabs, csv, documents };

    std::optional<RawRow> next_line();
    std::optional<RawRow> next_element();
    std::optional<RawRow> next_object();
    std::optional<CellRow> next_cells();
    std::optional<CellRow> next_csv_cells();
    void take_names(CellRow&& row);
    void look_for_other_bytes(std::string_view text, int64_t line);
    std::optional<RawRow> next_document();
    // The line that starts here without its end, false at the end of the file.
    bool read_line(std::string& line, int64_t bytes_max);
    void read_element(std::string& text);
    // The next byte that is no white space, -1 at the end; it is not consumed.
    int skip_space();
    int peek();
    int take();
    template <typename... Args>
    [[noreturn]] void fail(int64_t line, fmt::format_string<Args...> format, Args&&... args) const;

    std::string path_;
    std::string separator_;
    std::unique_ptr<ByteSource> source_;
    Layout layout_ = Layout::lines;
    std::string buffer_;
    size_t at_ = 0;                   // in the buffer
    int64_t line_ = 1;                // of the next byte
    std::vector<std::string> names_;  // of a table's columns
    std::unique_ptr<CsvRows> csv_;
    bool after_return_ = false;  // of CSV: the last line ended by '\r'
    std::optional<int64_t> replaced_line_;
    bool started_ = false;
    bool finished_ = false;
};

}  // namespace windlass
