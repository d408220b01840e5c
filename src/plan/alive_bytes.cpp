#include "plan/alive_bytes.h"

#include <algorithm>

#include "base/index.h"
#include "base/math.h"
#include "schedule/layout.h"

namespace windlass {

AliveBytes::AliveBytes(const ScheduleSet& set, size_t tasks)
    : change_(set.tiers.size(), std::vector<int64_t>(tasks + 2)) {}

void AliveBytes::add(const BufferSpec& buffer, int first, int last) {
    // As placing rounds it: a sum of exact bytes would be less than any layout.
    const int64_t bytes = round_up(buffer.bytes, kParamAlignment);
    std::vector<int64_t>& change = change_[at(buffer.tier)];
    change[at(first)] += bytes;
    change[at(last) + 1] -= bytes;
}

std::vector<int64_t> AliveBytes::most() const {
    std::vector<int64_t> most;
    for (const std::vector<int64_t>& of_tier : change_) {
        int64_t alive = 0, peak = 0;
        for (const int64_t each : of_tier) peak = std::max(peak, alive += each);
        most.push_back(peak);
    }
    return most;
}

std::vector<int64_t> alive_bytes(const ScheduleSet& set, const Schedule& schedule) {
    AliveBytes alive(set, schedule.tasks.size());
    for (const BufferSpec& buffer : schedule.buffers) {
        if (buffer.first >= 0) alive.add(buffer, buffer.first, buffer.last);
    }
    return alive.most();
}

}  // namespace windlass
