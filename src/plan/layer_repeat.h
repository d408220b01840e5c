// layer_repeat.h: a step of a deep model, found in the schedule of a shallower one.
//
// Once a pass is under way, each layer's tasks come as far after the last one's, lane by lane, and wait for tasks that
// are as far before them. So the list of a deeper model is the shallower one's with a range of tasks in each pass
// repeated: from where the list comes to one layer to where it comes to another. Not proven: how buffers share
// addresses may differ, and with it what waits for what.
#pragma once

#include <optional>
#include <vector>

#include "plan/layer_tasks.h"
#include "schedule/schedule.h"

namespace windlass {

class LayerRepeat {
  public:
    // Adds so many copies of `layers`. Nothing if no range of the list holds their tasks alone: then passes fill and
    // drain over more layers than there are. `schedule`'s buffers are placed.
    static std::optional<LayerRepeat> find(const Schedule& schedule, const LayerTasks& layers, int copies);

    // By tier of the set, the most bytes of transient buffers that are alive at one time.
    std::vector<int64_t> alive_bytes(const ScheduleSet& set, const Schedule& schedule) const;
    // What is to be simulated to know how long the deep model's step takes. Waits of the schedule are derived.
    std::vector<Task> tasks(const Schedule& schedule) const;

  private:
    // Of one lane: the tasks before a pass, those before its range, and those in it.
    struct LaneRange {
        int before_pass = 0, before = 0, inside = 0;
    };
    // Tasks [begin, end) of the list, in a pass that begins at task `pass` and rises to deeper layers or comes down.
    struct Range {
        int pass = 0, begin = 0, end = 0;
        bool rises = false;
        int added_before = 0;  // tasks of copies of the ranges before
        std::vector<LaneRange> lanes{};

        bool holds(int task) const { return begin <= task && task < end; }
        int size() const { return end - begin; }
    };
    class Lives;

    LayerRepeat(const Schedule& schedule, std::vector<Range> ranges, int copies);
    static std::vector<Range> ranges_of(const std::vector<Arrival>& arrivals, const LayerTasks& layers);
    void count_lanes(const Schedule& schedule);
    bool are_layers(const Schedule& schedule, const LayerTasks& layers) const;
    bool repeats(const Schedule& schedule, const LayerTasks& layers, int head, int lane, const LaneRange& range) const;
    // The task of the same lane that is one period of its pass before; -1: none.
    int period_before(const Schedule& schedule, int task) const;
    // By how much more it waits for than that one; nothing if that one does not wait for the lane.
    std::optional<int> change_of(const Schedule& schedule, int task, const Wait& wait) const;
    // How many tasks of the lane to wait for in the repeated list.
    int waited_for_outside(const Schedule& schedule, int task, const Wait& wait) const;
    int waited_for(const Schedule& schedule, int task, int copy, const Wait& wait) const;
    // Where a task of the schedule is in the repeated list, in one of the copies of its pass's range or after it.
    int place_of(int task, int copy) const;

    int copies_, added_ = 0;  // tasks of all copies
    std::vector<Range> ranges_;
    std::vector<std::vector<int>> lanes_;  // tasks, by lane
    std::vector<int> place_;               // by task: how many of its lane are before it
    std::vector<int> pass_;                // by task: the range of its pass; -1: before all passes
};

}  // namespace windlass
