// data_files.h: which files a user means by a name: a file, a folder of them, or a pattern.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace windlass {

// Whether the name ends as files of rows do (text/row_reader.h).
bool has_rows_ending(std::string_view path);

// Every name in order: a file as it is; a folder as its files of known kinds (not those of folders in it), a pattern
// (* ? [ ] in the last part of a path) as the files that match, either sorted bytewise. What exists under its very name
// is no pattern. Throws UserError(data) for a folder or pattern without a file of a known kind. A name that does not
// exist is returned unchanged; opening it fails.
std::vector<std::string> find_data_files(FileSystem& files, const std::vector<std::string>& names);

}  // namespace windlass
