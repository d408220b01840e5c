// csv_rows.h: cuts CSV into rows of cells, piece by piece: RFC 4180, through libcsv.
//
// Cells lie between commas. One in quotes may hold commas, line ends, and quotes written twice; white space belongs to
// its cell. Lines without anything are skipped. Memory: one row.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace windlass {

struct CellRow {
    int64_t line = 0;  // on which it starts
    std::vector<std::string> cells;
};

class CsvRows {
  public:
    // Of more than `cells_max` cells a row keeps one more than these.
    CsvRows(std::string path, int64_t row_bytes_max, size_t cells_max);
    ~CsvRows();
    CsvRows(const CsvRows&) = delete;
    // The next bytes of the file, at most to the end of their line, which is this one. UserError(data) that names file
    // and line for quotes that are not as they should be and for a row that is longer than allowed.
    void add(std::string_view piece, int64_t line);
    // No more bytes follow. UserError(data) where the file ends inside of a quoted cell.
    void finish();
    // Whether a row is whole, and it.
    bool has_row() const { return !rows_.empty(); }
    CellRow take();

  private:
    struct Parser;
    void add_cell(std::string_view cell);
    void end_row();
    void check(bool is_well) const;

    std::string path_;
    int64_t row_bytes_max_;
    size_t cells_max_;
    std::unique_ptr<Parser> parser_;
    CellRow row_;  // that is under way
    int64_t row_bytes_ = 0;
    bool in_row_ = false;
    std::deque<CellRow> rows_;
};

}  // namespace windlass
