#include "run/lane_streams.h"

#include <algorithm>

#include "base/index.h"

namespace windlass {

LaneStreams::LaneStreams(const ScheduleSet& set, const Devices& devices, int threads, int host_threads) : set_(set) {
    const std::vector<LaneId>& ids = set.schedules.front().lanes;
    lanes_.resize(ids.size());
    compute_ = static_cast<int>(std::ranges::find(ids, LaneKind::compute, &LaneId::kind) - ids.begin());
    WINDLASS_CHECK(at(compute_) < ids.size(), "no lane of {} computes", set.schedules.front().name);
    for (const Schedule& schedule : set.schedules) {
        WINDLASS_CHECK(schedule.lanes == ids, "{} has other lanes than {}", schedule.name, set.schedules.front().name);
        orders_.emplace_back(schedule);
    }
    for (int lane = 0; lane < std::ssize(ids); ++lane) {
        int most = 0;
        for (const TaskOrder& order : orders_) most = std::max(most, order.tasks_of(lane));
        const LaneKind kind = ids[at(lane)].kind;
        if (kind == LaneKind::disk_read || kind == LaneKind::disk_write || (most == 0 && lane != compute_)) continue;
        Lane& made = lanes_[at(lane)];
        if (kind == LaneKind::host)
            made.stream = make_stream(DeviceKind::cpu, std::max(1, host_threads));
        else
            made.stream = devices.of(ids[at(lane)].index).make_stream(kind == LaneKind::compute ? threads : 1);
        // Events are never recorded again while a lane may still wait for their earlier meaning.
        made.events.resize(at(made.stream->runs_ahead() ? std::max(1, most) : 1));
        for (TaskEvents& events : made.events) events = {made.stream->make_event(), made.stream->make_event()};
    }
}

const TaskOrder& LaneStreams::order(const Schedule& schedule) const {
    const auto index = &schedule - set_.schedules.data();
    WINDLASS_CHECK(index >= 0 && at(index) < orders_.size(), "{} is no schedule of this run", schedule.name);
    return orders_[at(index)];
}

}  // namespace windlass
