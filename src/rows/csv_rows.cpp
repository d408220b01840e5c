#include "rows/csv_rows.h"

#include <csv.h>

#include <algorithm>
#include <exception>

#include "base/error.h"

namespace windlass {
namespace {

constexpr size_t kGrowthBytes = size_t{64} << 10;

}  // namespace

// libcsv's, and what our side of it threw: no exception may pass through C.
struct CsvRows::Parser {
    csv_parser parser{};
    CsvRows* rows = nullptr;
    std::exception_ptr failure;

    template <typename Call>
    static void guard(void* self, Call call) {
        auto& me = *static_cast<Parser*>(self);
        if (me.failure) return;
        try {
            call(*me.rows);
        } catch (...) {
            me.failure = std::current_exception();
        }
    }
    static void on_cell(void* bytes, size_t count, void* self) {
        guard(self, [&](CsvRows& rows) { rows.add_cell({static_cast<const char*>(bytes), count}); });
    }
    static void on_row(int, void* self) {
        guard(self, [](CsvRows& rows) { rows.end_row(); });
    }
};

CsvRows::CsvRows(std::string path, int64_t row_bytes_max, size_t cells_max)
    : path_(std::move(path)),
      row_bytes_max_(row_bytes_max),
      cells_max_(cells_max),
      parser_(std::make_unique<Parser>()) {
    csv_init(&parser_->parser, CSV_STRICT | CSV_STRICT_FINI);
    csv_set_blk_size(&parser_->parser, kGrowthBytes);
    csv_set_space_func(&parser_->parser, [](unsigned char) { return 0; });  // white space is a part of its cell
    parser_->rows = this;
}

CsvRows::~CsvRows() {
    csv_free(&parser_->parser);
}

void CsvRows::add(std::string_view piece, int64_t line) {
    if (!in_row_ && piece.find_first_not_of("\r\n") != std::string_view::npos) {
        in_row_ = true;
        row_.line = line;
    }
    csv_parser& parser = parser_->parser;
    const size_t taken = csv_parse(&parser, piece.data(), piece.size(), Parser::on_cell, Parser::on_row, parser_.get());
    if (taken != piece.size() && csv_error(&parser) == CSV_EPARSE)
        throw UserError(ExitCode::data, fmt::format("{}:{}", path_, line),
                        "a quote is inside a cell that is not quoted, or something follows a quoted cell")
            .hint("put the whole cell into quotes, and write each quote in it twice: \"a \"\"b\"\" c\"");
    check(taken == piece.size());
    csv_set_blk_size(&parser, std::max(kGrowthBytes, csv_get_buffer_size(&parser)));  // a long cell is copied seldom
    if (row_bytes_ + static_cast<int64_t>(parser.entry_pos) > row_bytes_max_)
        throw UserError(ExitCode::data, fmt::format("{}:{}", path_, row_.line), "the row is longer than {} bytes",
                        row_bytes_max_)
            .hint("look for a quote that opens a cell there and is never closed");
}

void CsvRows::finish() {
    const int result = csv_fini(&parser_->parser, Parser::on_cell, Parser::on_row, parser_.get());
    if (result != 0 && csv_error(&parser_->parser) == CSV_EPARSE)
        throw UserError(ExitCode::data, fmt::format("{}:{}", path_, row_.line),
                        "the file ends inside of a quoted cell of this row")
            .hint("look for a quote that opens a cell there and is never closed");
    check(result == 0);
}

void CsvRows::check(bool is_well) const {
    if (parser_->failure) std::rethrow_exception(parser_->failure);
    if (!is_well) throw std::bad_alloc();  // the only other way in which libcsv fails
}

CellRow CsvRows::take() {
    CellRow row = std::move(rows_.front());
    rows_.pop_front();
    return row;
}

void CsvRows::add_cell(std::string_view cell) {
    if (row_.cells.size() > cells_max_) return;
    row_.cells.emplace_back(cell);
    row_bytes_ += static_cast<int64_t>(cell.size());
}

void CsvRows::end_row() {
    rows_.push_back(std::move(row_));
    row_ = {};
    row_bytes_ = 0;
    in_row_ = false;
}

}  // namespace windlass
