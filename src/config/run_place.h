// run_place.h: what a path says of a run: its folder, or the run.yaml in it. A user may name either.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace windlass {

// Of run folders, and of the run states in them.
inline constexpr int64_t kRunFormat = 1;

// What is recorded (nothing: there is no number) is kRunFormat. UserError(storage) names `where`, what wrote it, and
// what this program reads.
void require_run_format(std::optional<int64_t> recorded, std::string_view where);
// The same of a run's folder, by its run.yaml, if there is one.
void require_run_format(FileSystem& files, const std::string& folder);
// The same of the text of a configuration file, if that is a run's own: false where it is not.
bool require_run_format_in(const std::string& yaml, std::string_view where);

// A run has begun in this folder: it holds a run.yaml, and either a lock or the lines that a run writes into that file.
// A folder with a configuration that a user wrote is no run.
bool is_run_folder(FileSystem& files, const std::string& folder);

// The file that a configuration's name means: of a folder its run.yaml, else the path itself, which need not be
// there. UserError(usage) for a folder without one.
std::string config_file_of(FileSystem& files, const std::string& path);

// The folder that a run's name means: of a run's run.yaml the folder that holds it, else the path itself, without
// slashes at its end.
std::string run_folder_of(FileSystem& files, const std::string& path);

// A path that a file in `folder` holds: as it is if it is there. Else, if it is relative, taken from that folder, from
// the folder of the run that this one is part of, or from where that run was started: the first of them where it is.
// `path` itself if it is nowhere. A pattern is there if the folder that it begins with is.
std::string found_from(FileSystem& files, const std::string& path, const std::string& folder);

}  // namespace windlass
