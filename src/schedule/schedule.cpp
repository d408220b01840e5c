#include "schedule/schedule.h"

namespace windlass {

std::string_view owner_name(Owner owner) {
    static constexpr std::array<std::string_view, kOwners> kNames = {"weights",   "low halves",  "optimizer state",
                                                                     "gradients", "activations", "boundaries",
                                                                     "workspace", "cache",       "staging"};
    return kNames[static_cast<size_t>(owner)];
}

std::string_view home_name(Home home) {
    return home == Home::memory ? "memory" : "disk";
}

const BufferSpec& ScheduleSet::buffer(const Schedule& schedule, BufferId id) const {
    const size_t index = static_cast<size_t>(id);
    return index < persistent.size() ? persistent[index] : schedule.buffers[index - persistent.size()];
}

const Schedule* ScheduleSet::find(std::string_view name) const {
    for (const Schedule& schedule : schedules) {
        if (schedule.name == name) return &schedule;
    }
    return nullptr;
}

Demand total_demand(const Schedule& schedule) {
    Demand sum;
    for (const Task& task : schedule.tasks) {
        sum.flops += task.demand.flops;
        sum.model_flops += task.demand.model_flops;
        sum.memory_bytes += task.demand.memory_bytes;
        sum.disk_read_bytes += task.demand.disk_read_bytes;
        sum.disk_write_bytes += task.demand.disk_write_bytes;
    }
    return sum;
}

}  // namespace windlass
