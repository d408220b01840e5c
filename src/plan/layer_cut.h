// layer_cut.h: what a step would be if the model had some layers fewer, found in its schedule.
//
// Layers that are alike have the same tasks. So a step of fewer layers has the tasks of the schedule but for those of
// some layers in the middle: that says what it takes. And where a pass is under way each layer's tasks come as far from
// one another as the last one's, lane by lane. So a step of fewer layers also takes as long as the schedule without a
// range of tasks in each pass, from where the list comes to one layer to where it comes to another.
#pragma once

#include <vector>

#include "method/trained_model.h"
#include "schedule/schedule.h"

namespace windlass {

struct LayerCut {
    int first = 0, count = 0;  // blocks that are left out; neither the first of all nor the last
    std::vector<int> blocks;   // of each task the block that it works for; -1: none of its own

    bool leaves_out(size_t task) const { return first <= blocks[task] && blocks[task] < first + count; }
};

// `schedule` is the set's, of this model.
LayerCut cut_layers(const ScheduleSet& set, const Schedule& schedule, const TrainedModel& model, int first, int count);

// Of the tasks that are left out: their demand, and the bytes of activations that they write to disk.
Demand demand_of(const Schedule& schedule, const LayerCut& cut);
int64_t spilled_bytes(const Schedule& schedule, const LayerCut& cut);

// By tier of the set, the most bytes of the schedule's transient buffers that are alive at one time. Without a cut, and
// with one of the buffers that the rest uses.
std::vector<int64_t> alive_bytes(const ScheduleSet& set, const Schedule& schedule);
std::vector<int64_t> alive_bytes(const ScheduleSet& set, const Schedule& schedule, const LayerCut& cut);

// What is to be simulated to know how long a step without these layers takes: the schedule's tasks but for those
// ranges, what waited for one of them waiting for the one that is as far before it. Waits of the schedule are derived.
// Empty where the ranges are not what the layers do: passes that fill and drain over more layers than there are.
std::vector<Task> tasks_without(const Schedule& schedule, const LayerCut& cut);

}  // namespace windlass
