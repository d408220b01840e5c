// task_memory.h: the buffers of one task, leased while it runs.
#pragma once

#include <vector>

#include "run/arenas.h"

namespace windlass {

class TaskMemory {
  public:
    TaskMemory(const Task& task, const ScheduleSet& set, const Schedule& schedule, const Arenas& arenas)
        : uses_(task.uses) {
        for (const BufferUse& use : uses_)
            leases_.push_back(
                arenas.lease(set.buffer(schedule, use.buffer), use.write, use.begin, use.end - use.begin));
    }
    std::byte* address(const BufferSlice& slice) const {
        if (slice.buffer == kNoBuffer) return nullptr;
        for (size_t i = 0; i < uses_.size(); ++i) {
            const BufferUse& use = uses_[i];
            const bool holds = use.begin <= slice.offset && (slice.offset < use.end || use.begin == use.end);
            if (use.buffer == slice.buffer && holds) return leases_[i].data() + (slice.offset - use.begin);
        }
        WINDLASS_CHECK(false, "a task touches byte {} of buffer {}, which it did not declare", slice.offset,
                       slice.buffer);
        return nullptr;
    }

  private:
    const std::vector<BufferUse>& uses_;
    std::vector<Lease> leases_;
};

}  // namespace windlass
