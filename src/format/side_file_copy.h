// side_file_copy.h: copies a file of a model folder that is no weights, which costs no weights where it cannot be read.
#pragma once

#include <string>

#include "base/file.h"

namespace windlass {

// Copies a file to a path where there is none. Reading is tried three times, because a call may fail once, or for want
// of descriptors. Returns why the file could not be read; empty: the copy is whole and synced. Throws where the copy
// cannot be written.
std::string copy_side_file(FileSystem& files, const std::string& from, const std::string& to);

}  // namespace windlass
