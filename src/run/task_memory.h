// task_memory.h: the buffers of one task, leased from when it is issued until it is complete.
#pragma once

#include <vector>

#include "run/arenas.h"

namespace windlass {

class TaskMemory {
  public:
    void take(const Task& task, const ScheduleSet& set, const Schedule& schedule, const Arenas& arenas,
              const LeaseOrder& order) {
        uses_ = schedule.uses_of(task);
        for (const BufferUse& use : uses_)
            leases_.push_back(
                arenas.lease(set.buffer(schedule, use.buffer), use.write, use.begin, use.end - use.begin, order));
    }
    void drop() { leases_.clear(); }

    // Where the host finds it: of tasks that it performs itself.
    std::byte* address(const BufferSlice& slice) const {
        const Found found = find(slice);
        return found.lease == nullptr ? nullptr : found.lease->data() + found.offset;
    }
    std::byte* address(const BufferSlice& slice, const Launch& launch) const {
        const Found found = find(slice);
        return found.lease == nullptr ? nullptr : found.lease->data(launch) + found.offset;
    }

  private:
    struct Found {
        const Lease* lease = nullptr;
        int64_t offset = 0;  // in it
    };
    Found find(const BufferSlice& slice) const {
        if (slice.buffer == kNoBuffer) return {};
        for (size_t i = 0; i < uses_.size(); ++i) {
            const BufferUse& use = uses_[i];
            const bool holds = use.begin <= slice.offset && (slice.offset < use.end || use.begin == use.end);
            if (use.buffer == slice.buffer && holds) return {&leases_[i], slice.offset - use.begin};
        }
        WINDLASS_CHECK(false, "a task touches byte {} of buffer {}, which it did not declare", slice.offset,
                       slice.buffer);
        return {};
    }

    std::span<const BufferUse> uses_;
    std::vector<Lease> leases_;
};

// What work that is launched for a task sees of it.
class LaunchedMemory {
  public:
    LaunchedMemory(const TaskMemory& memory, const Launch& launch) : memory_(memory), launch_(launch) {}
    std::byte* address(const BufferSlice& slice) const { return memory_.address(slice, launch_); }
    Stream& stream() const { return launch_.stream(); }

  private:
    const TaskMemory& memory_;
    const Launch& launch_;
};

}  // namespace windlass
