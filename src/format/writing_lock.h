// writing_lock.h: one writer at a time of what is made under a temporary name and then renamed.
#pragma once

#include <string>

#include "base/file_lock.h"

namespace windlass {

// The lock of this file, which is made if it is absent; what it holds stays. Its holder may rename or remove the file:
// one that opened it before then fails here too. UserError(storage, target) if another writer has it.
FileLock lock_for_writing(FileSystem& files, const std::string& path, const std::string& target);

}  // namespace windlass
