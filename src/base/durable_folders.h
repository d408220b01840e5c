// durable_folders.h: folders that are found again after a power failure.
#pragma once

#include <string>

#include "base/file.h"

namespace windlass {

// Makes this folder and those above it that are missing, and their names durable: else a machine whose power failed
// finds nothing of what was synced within them. MachineError of the call that fails.
void make_durable_folders(FileSystem& files, const std::string& path);

}  // namespace windlass
