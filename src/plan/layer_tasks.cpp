#include "plan/layer_tasks.h"

#include "base/index.h"

namespace windlass {
namespace {

template <typename Visit>
void each_of(const Schedule& schedule, const LayerTasks& layers, Visit visit) {
    for (size_t index = 0; index < schedule.tasks.size(); ++index) {
        if (layers.holds(index)) visit(schedule.tasks[index]);
    }
}

}  // namespace

LayerTasks tasks_of_layers(const Schedule& schedule, int first, int count) {
    LayerTasks layers{.first = first, .count = count};
    layers.blocks.reserve(schedule.tasks.size());
    for (const Task& task : schedule.tasks) layers.blocks.push_back(task.block);
    return layers;
}

Demand demand_of(const Schedule& schedule, const LayerTasks& layers) {
    std::vector<Task> tasks;
    each_of(schedule, layers, [&](const Task& task) { tasks.push_back({.when = task.when, .demand = task.demand}); });
    return total_demand(tasks, schedule.writeback_steps);
}

int64_t spilled_bytes(const Schedule& schedule, const LayerTasks& layers) {
    int64_t bytes = 0;
    each_of(schedule, layers, [&](const Task& task) {
        if (task.verb != Verb::move) return;
        const MoveTask& move = schedule.moves[at(task.payload)];
        // An activation is one piece: it has no chunks.
        if (move.kind == MoveKind::disk_write && move.place == DiskPlace::activation) bytes += move.pieces[0].bytes;
    });
    return bytes;
}

}  // namespace windlass
