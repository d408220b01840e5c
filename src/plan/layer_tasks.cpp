#include "plan/layer_tasks.h"

#include "base/index.h"

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
void each_of(const Schedule& schedule, const LayerTasks& layers, Visit visit) {
    for (size_t index = 0; index < schedule.tasks.size(); ++index) {
        if (layers.holds(index)) visit(schedule.tasks[index]);
    }
}

}  // namespace

LayerTasks tasks_of_layers(const ScheduleSet& set, const Schedule& schedule, const TrainedModel& model, int first,
                           int count) {
    LayerTasks layers{.first = first, .count = count};
    layers.blocks.reserve(schedule.tasks.size());
    const TaskBlocks blocks(set, schedule, model);
    for (const Task& task : schedule.tasks) layers.blocks.push_back(blocks.of(task));
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
        if (move.kind == MoveKind::disk_write && move.place == DiskPlace::activation) bytes += move.pieces[0].bytes;
    });
    return bytes;
}

}  // namespace windlass
