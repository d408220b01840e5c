// data_kind.h: what a data file is by its name (how its bytes are cut into rows, how they are compressed), and what its
// first bytes must not be.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace windlass {

enum class RowLayout { lines, json, tabs, csv, documents };
enum class Compression { none, gzip, zstd, xz };

std::string_view name_of(Compression compression);

// ".gz"; "" for Compression::none.
std::string_view ending_of(Compression compression);

struct DataKind {
    RowLayout layout = RowLayout::lines;
    Compression compression = Compression::none;
};

inline constexpr const char* kDataKinds =
    ".jsonl, .json, .csv, .tsv or .txt, or one of them followed by .gz, .zst or .xz";

// "rows.jsonl.gz" -> ".jsonl.gz", "rows.jsonl" -> ".jsonl": the end of the name, by which the file is read; "" without.
std::string_view data_ending(std::string_view path);

// Nothing for a name that ends otherwise. Capital letters are as good as small ones.
std::optional<DataKind> find_data_kind(std::string_view path);
// The same, where UserError(data) says what to do with a file that ends otherwise.
DataKind data_kind(const std::string& path);

// The command that makes rows of tables that are not read, of a path or pattern that ends in .parquet or .arrow;
// nothing where it ends otherwise.
std::optional<std::string> table_export(std::string_view path);

// The command that makes rows of a folder that `datasets`' save_to_disk wrote; `part`: the one to take, "train", of
// several; empty: the folder holds one.
std::string saved_export(std::string_view folder, std::string_view part);

// The compression whose data begin so.
Compression compression_of(std::string_view first_bytes);
// UserError(data) where the text of this file, after decompression, begins as no text does: compressed, an archive, a
// table in binary, UTF-16.
void refuse_what_is_no_text(const std::string& path, Compression compression, std::string_view first_bytes);

}  // namespace windlass
