// task_order.h: what the waits of a schedule guarantee: how much of each lane is complete before a task starts.
#pragma once

#include <span>
#include <vector>

#include "schedule/schedule.h"

namespace windlass {

class TaskOrder {
  public:
    // Aborts where a task waits for one that follows it in the list: its lane would wait forever.
    explicit TaskOrder(const Schedule& schedule);

    // Of a task in its lane, from 1.
    int sequence(size_t task) const { return sequence_[task]; }
    // By lane: how many of its first tasks are complete. Waits are followed through other tasks.
    std::span<const int> before(size_t task) const { return std::span(before_).subspan(task * lanes_, lanes_); }
    int tasks_of(int lane) const { return counts_[static_cast<size_t>(lane)]; }

  private:
    size_t lanes_;
    std::vector<int> before_;  // by task and lane
    std::vector<int> sequence_;
    std::vector<int> counts_;  // by lane
};

}  // namespace windlass
