// lane_streams.h: the streams that lanes launch on, and the events that tell when a task began and was complete.
//
// Made once for all schedules of a run. Threads: each lane uses its own entries; events are waited for by others.
#pragma once

#include <memory>
#include <vector>

#include "run/devices.h"
#include "schedule/task_order.h"

namespace windlass {

struct TaskEvents {
    std::unique_ptr<Event> begin, end;
};

class LaneStreams {
  public:
    // Of lanes that have tasks. The lanes of drives have none: who moves bytes there is the host itself.
    LaneStreams(const ScheduleSet& set, const Devices& devices, int threads, int host_threads);

    Stream* stream(int lane) const { return lanes_[static_cast<size_t>(lane)].stream.get(); }
    // The first compute lane, whose thread is the caller's, and its stream.
    int compute_lane() const { return compute_; }
    Stream& compute() const { return *stream(compute_); }
    bool runs_ahead(int lane) const { return stream(lane) != nullptr && stream(lane)->runs_ahead(); }
    // Of the n-th task of a lane, from 1. Where nothing runs ahead all tasks share one pair.
    TaskEvents& events(int lane, int sequence) {
        std::vector<TaskEvents>& all = lanes_[static_cast<size_t>(lane)].events;
        return all[static_cast<size_t>(sequence - 1) % all.size()];
    }
    const TaskOrder& order(const Schedule& schedule) const;

  private:
    struct Lane {
        std::unique_ptr<Stream> stream;
        std::vector<TaskEvents> events;
    };
    std::vector<Lane> lanes_;
    int compute_ = 0;
    const ScheduleSet& set_;
    std::vector<TaskOrder> orders_;  // by schedule
};

}  // namespace windlass
