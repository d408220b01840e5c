// layer_tasks.h: the tasks of some layers in the middle of a step, and what they take.
//
// Layers that are alike have the same tasks: a step of more layers or fewer takes as much more or less.
#pragma once

#include <vector>

#include "schedule/schedule.h"

namespace windlass {

struct LayerTasks {
    int first = 0, count = 0;  // blocks; neither the first of all nor the last
    std::vector<int> blocks;   // of each task the block that it works for; -1: none of its own

    bool holds(size_t task) const { return first <= blocks[task] && blocks[task] < first + count; }
};

LayerTasks tasks_of_layers(const Schedule& schedule, int first, int count);

// Of the tasks of these layers: their demand, and the bytes of activations that they write to disk.
Demand demand_of(const Schedule& schedule, const LayerTasks& layers);
int64_t spilled_bytes(const Schedule& schedule, const LayerTasks& layers);

}  // namespace windlass
