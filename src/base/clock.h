// clock.h: time since start-up, in nanoseconds, from the monotonic clock; and the time of day.
#pragma once

#include <chrono>
#include <cstdint>

namespace windlass {

inline int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

inline double seconds_since(int64_t start_ns) {
    return static_cast<double>(now_ns() - start_ns) * 1e-9;
}

// Since 1970, for records that people and other programs read; it may jump.
inline double wall_seconds() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace windlass
