// pinned_ranges.h: which memory of the host is pinned, registration by registration. No copy may cross an end of one.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <span>

namespace windlass {

class PinnedRanges {
  public:
    void add(std::span<const std::byte> range);
    void remove(const std::byte* begin);
    // How many of the bytes from `begin` on, of `bytes`, are of one registration, or of none.
    int64_t uniform(const std::byte* begin, int64_t bytes) const;

  private:
    mutable std::shared_mutex mutex_;
    std::map<uintptr_t, uintptr_t> ends_;  // by where each begins
};

// Of this process, as registrations are.
PinnedRanges& pinned_ranges();

}  // namespace windlass
