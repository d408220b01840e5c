#include "schedule/task_order.h"

#include "base/error.h"
#include "base/index.h"

namespace windlass {

TaskOrder::TaskOrder(const Schedule& schedule)
    : lanes_(schedule.lanes.size()), before_(schedule.tasks.size() * lanes_, 0), counts_(lanes_, 0) {
    std::vector<std::vector<size_t>> tasks(lanes_);  // by lane
    for (size_t index = 0; index < schedule.tasks.size(); ++index) {
        const Task& task = schedule.tasks[index];
        const std::span<int> before = std::span(before_).subspan(index * lanes_, lanes_);
        const auto follow = [&](size_t other) {
            for (size_t lane = 0; lane < lanes_; ++lane)
                before[lane] = std::max(before[lane], before_[other * lanes_ + lane]);
            int& own = before[at(schedule.tasks[other].lane)];
            own = std::max(own, sequence_[other]);
        };
        std::vector<size_t>& lane = tasks[at(task.lane)];
        if (!lane.empty()) follow(lane.back());
        for (const Wait& wait : task.after) {
            const std::vector<size_t>& others = tasks[at(wait.lane)];
            WINDLASS_CHECK(at(wait.count) <= others.size(), "{}: task {} waits for {} tasks of lane {}, {} precede it",
                           schedule.name, index, wait.count, wait.lane, others.size());
            follow(others[at(wait.count) - 1]);
        }
        lane.push_back(index);
        sequence_.push_back(++counts_[at(task.lane)]);
    }
}

}  // namespace windlass
