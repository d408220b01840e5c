// kernel_text.h: texts that the kernel writes as they are read, such as those below /proc and /sys/fs/cgroup.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace windlass {

// The lines of such a file, which has no size of its own: at most this many bytes, cut after a whole line. Nothing
// where there is no such file or it may not be read.
std::optional<std::string> read_kernel_text(FileSystem& files, const std::string& path, int64_t bytes_max);

// The number after "name:" in a line "name:   17 kB", as bytes; 0 without such a line.
int64_t kernel_bytes(std::string_view text, std::string_view name);

// The whole number that is a text's first word; nothing for "max", "" or one beyond 64 bits.
std::optional<int64_t> first_number(std::string_view text);

}  // namespace windlass
