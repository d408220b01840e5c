// units.h: bytes, durations and rates as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace windlass {

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

// "1.50 GiB", "512 B".
std::string format_bytes(int64_t bytes);

// A size to be typed: as flags and keys take it, of three or four digits, rounded up, so that it is enough. "1.51GiB",
// "101MiB", "512B".
std::string size_to_type(int64_t bytes);

// "12.3 ms", "1.25 s", "02:13:05" from an hour on.
std::string format_seconds(double seconds);

// "124.4 M", "1.10 B": counts of parameters or tokens.
std::string format_count(int64_t count);

// "4GiB", "4GB", "512M"; decimal for kB/MB/GB/TB, binary for K/M/G/T and KiB/MiB/GiB/TiB. Throws UserError(usage)
// naming `where`, also for a number below a MiB without a unit. `total` is what "80%" refers to; 0 refuses percentages.
int64_t parse_bytes(std::string_view text, std::string_view where, int64_t total = 0);

}  // namespace windlass
