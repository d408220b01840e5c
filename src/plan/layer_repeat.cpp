#include "plan/layer_repeat.h"

#include <algorithm>

#include "base/index.h"
#include "plan/alive_bytes.h"

namespace windlass {
namespace {

bool do_the_same(const Task& one, const Task& other) {
    const Demand &a = one.demand, &b = other.demand;
    return one.verb == other.verb && one.when == other.when && a.memory_bytes == b.memory_bytes &&
           a.up_bytes == b.up_bytes && a.down_bytes == b.down_bytes && a.disk_read_bytes == b.disk_read_bytes &&
           a.disk_write_bytes == b.disk_write_bytes;
}

// Where the pass begins that this arrival is in.
int pass_begin(const std::vector<Arrival>& arrivals, size_t index, int step) {
    while (index > 0 && arrivals[index].block - arrivals[index - 1].block == step) --index;
    return arrivals[index].task;
}

}  // namespace

std::optional<LayerRepeat> LayerRepeat::find(const Schedule& schedule, const LayerTasks& layers, int copies) {
    std::vector<Range> ranges = ranges_of(schedule.arrivals, layers);
    if (ranges.empty()) return std::nullopt;
    LayerRepeat repeat(schedule, std::move(ranges), copies);
    if (!repeat.are_layers(schedule, layers)) return std::nullopt;
    return repeat;
}

LayerRepeat::LayerRepeat(const Schedule& schedule, std::vector<Range> ranges, int copies)
    : copies_(copies), ranges_(std::move(ranges)), lanes_(schedule.lanes.size()) {
    count_lanes(schedule);
}

// In each pass, from where it comes to the first of the layers to where it comes to the one after them; nothing where a
// pass goes over a part of them.
std::vector<LayerRepeat::Range> LayerRepeat::ranges_of(const std::vector<Arrival>& arrivals, const LayerTasks& layers) {
    const int first = layers.first, last = layers.first + layers.count - 1;
    std::vector<Range> ranges;
    for (size_t index = 0; index + at(layers.count) < arrivals.size(); ++index) {
        const int block = arrivals[index].block, next = arrivals[index + 1].block;
        const Arrival& end = arrivals[index + at(layers.count)];
        const bool rises = block == first && end.block == last + 1, falls = block == last && end.block == first - 1;
        const bool enters = (block == first && next == first + 1) || (block == last && next == last - 1);
        if (enters && !rises && !falls) return {};
        if (!rises && !falls) continue;
        ranges.push_back({.pass = pass_begin(arrivals, index, rises ? 1 : -1),
                          .begin = arrivals[index].task,
                          .end = end.task,
                          .rises = rises});
    }
    return ranges;
}

void LayerRepeat::count_lanes(const Schedule& schedule) {
    const auto count = [this](size_t lane) { return static_cast<int>(lanes_[lane].size()); };
    int task = 0, pass = -1;
    const auto go_to = [&](int end) {
        for (; task < end; ++task) {
            const size_t lane = at(schedule.tasks[at(task)].lane);
            place_.push_back(count(lane));
            pass_.push_back(pass);
            lanes_[lane].push_back(task);
        }
    };
    for (Range& range : ranges_) {
        range.lanes.resize(lanes_.size());
        go_to(range.pass);
        for (size_t lane = 0; lane < lanes_.size(); ++lane) range.lanes[lane].before_pass = count(lane);
        ++pass;
        go_to(range.begin);
        for (size_t lane = 0; lane < lanes_.size(); ++lane) range.lanes[lane].before = count(lane);
        go_to(range.end);
        for (size_t lane = 0; lane < lanes_.size(); ++lane)
            range.lanes[lane].inside = count(lane) - range.lanes[lane].before;
        range.added_before = added_;
        added_ += copies_ * range.size();
    }
    go_to(static_cast<int>(schedule.tasks.size()));
    pass_.push_back(pass);  // of the end, to which some buffers live
}

// As many tasks of each lane, which repeat the tasks before them.
bool LayerRepeat::are_layers(const Schedule& schedule, const LayerTasks& layers) const {
    const int head = std::ranges::max(layers.blocks);
    for (int lane = 0; lane < std::ssize(lanes_); ++lane) {
        int of_ranges = 0;
        for (const Range& range : ranges_) {
            of_ranges += range.lanes[at(lane)].inside;
            if (!repeats(schedule, layers, head, lane, range.lanes[at(lane)])) return false;
        }
        const auto is_theirs = [&](int task) { return layers.holds(at(task)); };
        // Tasks of these layers outside the ranges would not be repeated: passes still fill or drain over more layers
        // than these.
        if (of_ranges != std::ranges::count_if(lanes_[at(lane)], is_theirs)) return false;
    }
    return true;
}

bool LayerRepeat::repeats(const Schedule& schedule, const LayerTasks& layers, int head, int lane,
                          const LaneRange& range) const {
    for (int place = range.before; place < range.before + range.inside; ++place) {
        const int before = place - range.inside;
        if (before < 0) continue;
        const size_t task = at(lanes_[at(lane)][at(before)]);
        if (layers.blocks[task] <= 0 || layers.blocks[task] == head) continue;  // no layer's
        if (!do_the_same(schedule.tasks[task], schedule.tasks[at(lanes_[at(lane)][at(place)])])) return false;
    }
    return true;
}

int LayerRepeat::period_before(const Schedule& schedule, int task) const {
    if (pass_[at(task)] < 0) return -1;
    const int lane = schedule.tasks[at(task)].lane;
    const int place = place_[at(task)] - ranges_[at(pass_[at(task)])].lanes[at(lane)].inside;
    return place < 0 ? -1 : lanes_[at(lane)][at(place)];
}

int LayerRepeat::waited_for_outside(const Schedule& schedule, int task, const Wait& wait) const {
    int count = wait.count;
    for (const Range& range : ranges_) {
        const LaneRange& lane = range.lanes[at(wait.lane)];
        if (wait.count > lane.before) count += copies_ * lane.inside;
    }
    // After the range, for what is more layers before than the range has.
    if (const int pass = pass_[at(task)]; pass >= 0 && task >= ranges_[at(pass)].end) {
        const LaneRange& lane = ranges_[at(pass)].lanes[at(wait.lane)];
        const bool is_before = lane.before_pass < wait.count && wait.count <= lane.before;
        if (is_before && change_of(schedule, task, wait) == lane.inside) count += copies_ * lane.inside;
    }
    return count;
}

std::optional<int> LayerRepeat::change_of(const Schedule& schedule, int task, const Wait& wait) const {
    const int before = period_before(schedule, task);
    const int last = before < 0 ? 0 : schedule.tasks[at(before)].after.of(wait.lane);
    return last > 0 ? std::optional(wait.count - last) : std::nullopt;
}

// A pass waits for its own tasks that are a fixed number of layers before, and for the same layer's tasks of an earlier
// pass: the deepest come first in a pass that comes down. What a task and the one a period before both wait for is no
// layer's.
int LayerRepeat::waited_for(const Schedule& schedule, int task, int copy, const Wait& wait) const {
    const size_t lane = at(wait.lane), range = at(pass_[at(task)]);
    size_t pass = range + 1;
    // Waits are counts over a lane: the count says which pass the awaited task is in.
    while (pass > 0 && wait.count <= ranges_[pass - 1].lanes[lane].before_pass) --pass;
    if (pass-- == 0) return wait.count;
    int count = wait.count;
    // The copies of earlier passes' ranges all come before it.
    for (size_t each = 0; each < pass; ++each) count += copies_ * ranges_[each].lanes[lane].inside;
    const LaneRange& waited = ranges_[pass].lanes[lane];
    const bool turns = ranges_[pass].rises != ranges_[range].rises;
    const std::optional<int> change = change_of(schedule, task, wait);
    const bool is_same = change == 0;
    if (pass == range) return is_same ? count : count + copy * waited.inside;
    const bool moves = change == (turns ? -waited.inside : waited.inside);
    if (!moves && wait.count <= waited.before) return count;
    const int passed = !moves && is_same ? copies_ : turns ? copies_ - copy : copy;
    return count + passed * waited.inside;
}

std::vector<Task> LayerRepeat::tasks(const Schedule& schedule) const {
    std::vector<Task> tasks;
    tasks.reserve(schedule.tasks.size() + at(added_));
    std::vector<int> done(lanes_.size(), 0);  // so far, by lane: nothing waits for what comes later
    const auto add = [&](int index, const auto& waited) {
        tasks.push_back(schedule.tasks[at(index)]);
        Task& task = tasks.back();
        Waits after;
        for (const Wait& wait : task.after) after.raise(wait.lane, std::clamp(waited(wait), 0, done[at(wait.lane)]));
        task.after = std::move(after);
        ++done[at(task.lane)];
    };
    int index = 0;
    const auto add_others = [&](int end) {
        for (; index < end; ++index)
            add(index, [&](const Wait& wait) { return waited_for_outside(schedule, index, wait); });
    };
    for (size_t range = 0; range < ranges_.size(); ++range) {
        add_others(ranges_[range].begin);
        for (int copy = 0; copy <= copies_; ++copy) {
            for (index = ranges_[range].begin; index < ranges_[range].end; ++index)
                add(index, [&](const Wait& wait) { return waited_for(schedule, index, copy, wait); });
        }
    }
    add_others(static_cast<int>(schedule.tasks.size()));
    return tasks;
}

int LayerRepeat::place_of(int task, int copy) const {
    if (pass_[at(task)] < 0) return task;
    const Range& range = ranges_[at(pass_[at(task)])];
    return task + range.added_before + copy * range.size();
}

// From when to when each copy of a buffer lives.
class LayerRepeat::Lives {
  public:
    Lives(const LayerRepeat& repeat, const Schedule& schedule) : repeat_(repeat), schedule_(schedule) {
        born_.resize(schedule.tasks.size());
        for (const BufferSpec& buffer : schedule.buffers) {
            if (buffer.first >= 0) born_[at(buffer.first)].push_back(&buffer);
        }
    }

    template <typename Visit>
    void each(const Visit& visit) const {
        for (int first = 0; first < std::ssize(born_); ++first) {
            for (size_t index = 0; index < born_[at(first)].size(); ++index) {
                const BufferSpec& buffer = *born_[at(first)][index];
                const int pass = repeat_.pass_[at(first)];
                const bool is_inside = pass >= 0 && repeat_.ranges_[at(pass)].holds(first);
                const bool is_near = pass >= 0 && (is_inside || repeat_.pass_[at(buffer.last)] == pass);
                const bool follows = is_near && is_layers(buffer, index, is_inside);
                const int least = is_inside ? 0 : copy_outside(pass, first);
                for (int copy = least; copy <= (is_inside ? repeat_.copies_ : least); ++copy) {
                    const int last =
                        follows ? copy_of_layer(pass, buffer.last, copy) : copy_of_other(pass, buffer, is_inside);
                    visit(buffer, repeat_.place_of(first, copy), repeat_.place_of(buffer.last, last));
                }
            }
        }
    }

  private:
    // Whether the buffer is a layer's own: of a range's, unless its counterpart of a period before dies at the very
    // same task; of another layer's, if both live as long.
    bool is_layers(const BufferSpec& buffer, size_t index, bool is_inside) const {
        const int before = repeat_.period_before(schedule_, buffer.first);
        if (before < 0 || index >= born_[at(before)].size()) return is_inside;
        const BufferSpec& other = *born_[at(before)][index];
        return is_inside ? other.last != buffer.last : buffer.last - other.last == buffer.first - before;
    }
    int copy_outside(int pass, int task) const {
        return pass >= 0 && task >= repeat_.ranges_[at(pass)].end ? repeat_.copies_ : 0;
    }
    // Where a buffer dies that was made in one copy of the pass's range.
    int copy_of_layer(int pass, int last, int copy) const {
        const int end = repeat_.pass_[at(last)];
        const bool turns = repeat_.ranges_[at(end)].rises != repeat_.ranges_[at(pass)].rises;
        return turns ? repeat_.copies_ - copy : copy;
    }
    // Where one dies that no layer of the ranges has for itself.
    int copy_of_other(int pass, const BufferSpec& buffer, bool is_inside) const {
        const int end = repeat_.pass_[at(buffer.last)];
        if (end < 0 || !repeat_.ranges_[at(end)].holds(buffer.last)) return copy_outside(end, buffer.last);
        if (is_inside || pass < 0) return repeat_.copies_;
        const bool is_before = buffer.first < repeat_.ranges_[at(pass)].begin;
        const bool turns = repeat_.ranges_[at(end)].rises != repeat_.ranges_[at(pass)].rises;
        return is_before == turns ? repeat_.copies_ : 0;
    }

    const LayerRepeat& repeat_;
    const Schedule& schedule_;
    std::vector<std::vector<const BufferSpec*>> born_;  // by their first task
};

std::vector<int64_t> LayerRepeat::alive_bytes(const ScheduleSet& set, const Schedule& schedule) const {
    AliveBytes alive(set, schedule.tasks.size() + at(added_));
    Lives(*this, schedule).each([&](const BufferSpec& buffer, int first, int last) { alive.add(buffer, first, last); });
    return alive.most();
}

}  // namespace windlass
