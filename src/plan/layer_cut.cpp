#include "plan/layer_cut.h"

#include <algorithm>

#include "base/index.h"
#include "base/math.h"
#include "schedule/layout.h"

namespace windlass {
namespace {

class TaskBlocks {
  public:
    TaskBlocks(const ScheduleSet& set, const Schedule& schedule, const TrainedModel& model)
        : set_(set), schedule_(schedule), model_(model) {}

    int of(const Task& task) const {
        const size_t payload = at(task.payload);
        switch (task.verb) {
            case Verb::run:
                return schedule_.runs[payload].block;
            case Verb::move:
                return of(schedule_.moves[payload]);
            case Verb::update:
                return of_param(schedule_.updates[payload].chunks[0].param);
            case Verb::round:
                return of_param(schedule_.rounds[payload].parts[0].param);
            case Verb::reduce: {
                const ReduceTask& reduce = schedule_.reduces[payload];
                return reduce.decides() ? -1 : of_param(reduce.parts[0].param);
            }
            case Verb::materialize:
                return schedule_.materializations[payload].block;
            case Verb::input:
            case Verb::mark:
            case Verb::refresh:
                break;
        }
        return -1;
    }

  private:
    int of_param(int param) const { return model_.param(param).spec.block; }
    int of(const MoveTask& move) const {
        if (const int param = move.pieces[0].param; param >= 0) return of_param(param);
        return set_.buffer(schedule_, move.buffer).block;
    }

    const ScheduleSet& set_;
    const Schedule& schedule_;
    const TrainedModel& model_;
};

template <typename Visit>
void each_left_out(const Schedule& schedule, const LayerCut& cut, Visit visit) {
    for (size_t index = 0; index < schedule.tasks.size(); ++index) {
        if (cut.leaves_out(index)) visit(schedule.tasks[index]);
    }
}

}  // namespace

LayerCut cut_layers(const ScheduleSet& set, const Schedule& schedule, const TrainedModel& model, int first, int count) {
    LayerCut cut{.first = first, .count = count};
    cut.blocks.reserve(schedule.tasks.size());
    const TaskBlocks blocks(set, schedule, model);
    for (const Task& task : schedule.tasks) cut.blocks.push_back(blocks.of(task));
    return cut;
}

Demand demand_of(const Schedule& schedule, const LayerCut& cut) {
    std::vector<Task> tasks;
    each_left_out(schedule, cut,
                  [&](const Task& task) { tasks.push_back({.when = task.when, .demand = task.demand}); });
    return total_demand(tasks, schedule.writeback_steps);
}

int64_t spilled_bytes(const Schedule& schedule, const LayerCut& cut) {
    int64_t bytes = 0;
    each_left_out(schedule, cut, [&](const Task& task) {
        if (task.verb != Verb::move) return;
        const MoveTask& move = schedule.moves[at(task.payload)];
        if (move.kind == MoveKind::disk_write && move.place == DiskPlace::activation) bytes += move.pieces[0].bytes;
    });
    return bytes;
}

namespace {

// The most that are alive at one time, by tier. `lives`: of each transient buffer its first and last task.
std::vector<int64_t> most_alive(const ScheduleSet& set, const Schedule& schedule,
                                const std::vector<std::pair<int, int>>& lives) {
    std::vector<std::vector<int64_t>> change(set.tiers.size(), std::vector<int64_t>(schedule.tasks.size() + 2));
    for (size_t index = 0; index < lives.size(); ++index) {
        const BufferSpec& buffer = schedule.buffers[index];
        const int64_t bytes = round_up(buffer.bytes, kParamAlignment);
        if (lives[index].first < 0) continue;
        change[at(buffer.tier)][at(lives[index].first)] += bytes;
        change[at(buffer.tier)][at(lives[index].second) + 1] -= bytes;
    }
    std::vector<int64_t> most;
    for (const std::vector<int64_t>& of_tier : change) {
        int64_t alive = 0, peak = 0;
        for (const int64_t each : of_tier) peak = std::max(peak, alive += each);
        most.push_back(peak);
    }
    return most;
}

}  // namespace

std::vector<int64_t> alive_bytes(const ScheduleSet& set, const Schedule& schedule) {
    std::vector<std::pair<int, int>> lives;
    for (const BufferSpec& buffer : schedule.buffers) lives.emplace_back(buffer.first, buffer.last);
    return most_alive(set, schedule, lives);
}

std::vector<int64_t> alive_bytes(const ScheduleSet& set, const Schedule& schedule, const LayerCut& cut) {
    std::vector<std::pair<int, int>> lives(schedule.buffers.size(), {-1, -1});
    const auto persistent = static_cast<BufferId>(set.persistent.size());
    for (size_t index = 0; index < schedule.tasks.size(); ++index) {
        if (cut.leaves_out(index)) continue;
        for (const BufferUse& use : schedule.uses_of(schedule.tasks[index])) {
            if (use.buffer < persistent) continue;
            auto& [first, last] = lives[at(use.buffer - persistent)];
            last = static_cast<int>(index);
            if (first < 0) first = last;
        }
    }
    for (size_t index = 0; index < lives.size(); ++index) {
        const BufferSpec& buffer = schedule.buffers[index];
        const bool waits_for_backward = buffer.tag == MemoryTag::activations || buffer.tag == MemoryTag::block_inputs;
        // What passes from a layer to the next is there from its first use, if its last one stays.
        if (!waits_for_backward || lives[index].second == buffer.last) lives[index].first = buffer.first;
        if (!waits_for_backward) lives[index].second = buffer.last;
    }
    return most_alive(set, schedule, lives);
}

namespace {

// Tasks [begin, end) of the list.
struct TaskRange {
    int begin = 0, end = 0;
};

// In each pass, from where it comes to the first of the layers to where it comes to the one after them; nothing where a
// pass goes over a part of them.
std::vector<TaskRange> ranges_of(const std::vector<Arrival>& arrivals, const LayerCut& cut) {
    const int first = cut.first, last = cut.first + cut.count - 1;
    std::vector<TaskRange> ranges;
    for (size_t index = 0; index + at(cut.count) < arrivals.size(); ++index) {
        const int block = arrivals[index].block, next = arrivals[index + 1].block;
        const Arrival& end = arrivals[index + at(cut.count)];
        const bool rises = block == first && next == first + 1, falls = block == last && next == last - 1;
        if (!rises && !falls) continue;
        if (end.block != (rises ? last + 1 : first - 1)) return {};
        ranges.push_back({arrivals[index].task, end.task});
    }
    return ranges;
}

// Of one lane: the tasks before a range, and in it.
struct LaneRange {
    int before = 0, inside = 0;
};

bool do_the_same(const Task& one, const Task& other) {
    const Demand &a = one.demand, &b = other.demand;
    return one.verb == other.verb && one.when == other.when && a.memory_bytes == b.memory_bytes &&
           a.up_bytes == b.up_bytes && a.down_bytes == b.down_bytes && a.disk_read_bytes == b.disk_read_bytes &&
           a.disk_write_bytes == b.disk_write_bytes;
}

// What a range leaves out of each lane.
class RangesByLane {
  public:
    RangesByLane(const Schedule& schedule, const LayerCut& cut, const std::vector<TaskRange>& ranges)
        : schedule_(schedule),
          cut_(cut),
          ranges_(schedule.lanes.size()),
          tasks_(schedule.lanes.size()),
          is_inside_(schedule.tasks.size(), false) {
        auto range = ranges.begin();
        for (size_t index = 0; index < schedule.tasks.size(); ++index) {
            while (range != ranges.end() && index >= at(range->end)) ++range;
            if (range != ranges.end() && index == at(range->begin)) {
                for (size_t lane = 0; lane < tasks_.size(); ++lane)
                    ranges_[lane].push_back({static_cast<int>(tasks_[lane].size()), 0});
            }
            const size_t lane = at(schedule.tasks[index].lane);
            tasks_[lane].push_back(index);
            if (range == ranges.end() || index < at(range->begin)) continue;
            is_inside_[index] = true;
            ++ranges_[lane].back().inside;
        }
    }

    // Whether the ranges leave out what the layers do: as many tasks of each lane, which repeat the tasks before them.
    bool are_the_layers() const {
        for (size_t lane = 0; lane < tasks_.size(); ++lane) {
            int of_ranges = 0;
            for (const LaneRange& range : ranges_[lane]) {
                of_ranges += range.inside;
                if (!repeats(tasks_[lane], range)) return false;
            }
            if (of_ranges != std::ranges::count_if(tasks_[lane], [&](size_t task) { return cut_.leaves_out(task); }))
                return false;
        }
        return true;
    }
    bool holds(size_t task) const { return is_inside_[task]; }
    int waited_for(const Wait& wait) const {
        int count = wait.count;
        for (const LaneRange& range : ranges_[at(wait.lane)]) {
            if (wait.count > range.before) count -= range.inside;
        }
        return std::max(0, count);
    }

  private:
    bool repeats(const std::vector<size_t>& lane, const LaneRange& range) const {
        for (int place = range.before; place < range.before + range.inside; ++place) {
            const int before = place - range.inside;
            if (before < 0 || cut_.blocks[lane[at(before)]] <= 0) continue;  // none, or the embedding's
            if (!do_the_same(schedule_.tasks[lane[at(before)]], schedule_.tasks[lane[at(place)]])) return false;
        }
        return true;
    }

    const Schedule& schedule_;
    const LayerCut& cut_;
    std::vector<std::vector<LaneRange>> ranges_;  // by lane
    std::vector<std::vector<size_t>> tasks_;      // by lane, in its order
    std::vector<bool> is_inside_;
};

}  // namespace

std::vector<Task> tasks_without(const Schedule& schedule, const LayerCut& cut) {
    const RangesByLane ranges(schedule, cut, ranges_of(schedule.arrivals, cut));
    std::vector<Task> tasks;
    if (!ranges.are_the_layers()) return tasks;
    tasks.reserve(schedule.tasks.size());
    for (size_t index = 0; index < schedule.tasks.size(); ++index) {
        if (ranges.holds(index)) continue;
        tasks.push_back(schedule.tasks[index]);
        Waits after;
        for (const Wait& wait : tasks.back().after) after.raise(wait.lane, ranges.waited_for(wait));
        tasks.back().after = std::move(after);
    }
    return tasks;
}

}  // namespace windlass
