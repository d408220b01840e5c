#include "device/cuda/pinned_ranges.h"

#include <algorithm>
#include <mutex>

namespace windlass {
namespace {

uintptr_t number_of(const std::byte* address) {
    return reinterpret_cast<uintptr_t>(address);
}

}  // namespace

void PinnedRanges::add(std::span<const std::byte> range) {
    const std::lock_guard lock(mutex_);
    ends_[number_of(range.data())] = number_of(range.data()) + range.size();
}

void PinnedRanges::remove(const std::byte* begin) {
    const std::lock_guard lock(mutex_);
    ends_.erase(number_of(begin));
}

int64_t PinnedRanges::uniform(const std::byte* begin, int64_t bytes) const {
    const uintptr_t first = number_of(begin);
    uintptr_t end = first + static_cast<uintptr_t>(bytes);
    const std::shared_lock lock(mutex_);
    const auto after = ends_.upper_bound(first);
    if (after != ends_.end()) end = std::min(end, after->first);
    if (after != ends_.begin()) {
        const uintptr_t own_end = std::prev(after)->second;
        if (own_end > first) end = std::min(end, own_end);
    }
    return static_cast<int64_t>(end - first);
}

PinnedRanges& pinned_ranges() {
    static PinnedRanges ranges;
    return ranges;
}

}  // namespace windlass
