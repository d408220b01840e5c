// full_disk.h: what a run can do without where a disk is full.
#pragma once

#include <functional>

#include "base/error.h"

namespace windlass {

// No space, or no more of it for this user.
bool is_disk_full(const MachineError& error);

// Whether it could be written. A full disk is a warning; other errors pass through.
bool write_unless_full(const std::function<void()>& write);

}  // namespace windlass
