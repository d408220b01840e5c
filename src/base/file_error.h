// file_error.h: errors of the file floor, worded once for the calls, the queues and the fault files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace windlass {

// MachineError(call, path, errno) with advice for the errors that the user can mend: permissions, space, limits.
MachineError file_error(std::string_view call, std::string_view path, int error_number);

// UserError "... ends at byte N": a read of `bytes` at `offset` met the end of the file.
UserError end_of_file_error(std::string_view path, int64_t file_bytes, int64_t offset, int64_t bytes);

// ENOSPC that says how much is missing.
MachineError no_space_error(std::string_view call, std::string_view path, int64_t needed, int64_t free);

// The folder that holds this path: "." for a bare name.
std::string parent_folder(std::string_view path);
// What is named so in a folder.
std::string path_in(std::string_view folder, std::string_view name);

}  // namespace windlass
