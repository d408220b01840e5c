// control_group.h: what the control groups of this process leave it of memory and processors.
//
// Containers, systemd and queue systems limit processes by control groups (man 7 cgroups), of version 1, version 2, or
// both at once. A process is bound by its own group and by each one above it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"

namespace windlass {

struct ControlGroup {
    // Of the group with the least left. Pages of files that it has not used lately count as free.
    struct Memory {
        int64_t limit = 0, left = 0;  // bytes; left is never negative
    };
    std::optional<Memory> memory;   // nothing: no limit
    std::optional<int> processors;  // whole ones, at least 1; nothing: no quota
};

// The groups as /proc/self/cgroup and /proc/self/mountinfo below `root` name them; `root` is "" for this machine. What
// is not there or cannot be read limits nothing.
ControlGroup read_control_group(FileSystem& files, const std::string& root);

}  // namespace windlass
