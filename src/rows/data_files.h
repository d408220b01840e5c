// data_files.h: which files a user means by a name: a file, a folder of them, or a pattern.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace windlass {

// Whether the name ends as files of rows do (rows/row_reader.h).
bool has_rows_ending(std::string_view path);

// What rows are for: which files of a folder that holds train, validation and test files are meant.
enum class RowsUse { train, evaluate };

// Every name in order: a file as it is; a folder as its files of known kinds (not those of folders in it), a pattern
// (* ? [ ] in the last part of a path) as the files that match, either sorted bytewise. What exists under its very name
// is no pattern.
//
// Of a folder or pattern whose files are named for splits (rows/split_names.h) the files of one are taken: to train,
// train files, else those of no split; to evaluate, validation files, else test files, else those of no split. Where
// the folder or pattern names validation or test itself, files of that split and of none come next after train files
// (to evaluate: first). A folder without rows of its own, but with folders named so, is the folder of that
// split. Log lines name the files that are taken and those that are not.
//
// Throws UserError(data) for a folder or pattern without a file of a known kind, for one to train on that holds
// validation and test files alone, and for a folder of `datasets`' save_to_disk. A name that does not exist is returned
// unchanged; opening it fails.
std::vector<std::string> find_data_files(FileSystem& files, const std::vector<std::string>& names, RowsUse use);

}  // namespace windlass
