// param_tasks.h: the param tasks of a schedule, by what their kernels do.
#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/index.h"
#include "schedule/schedule.h"

namespace windlass {

inline bool is_update(const ParamTask& task) {
    return task.kernel->is_update;
}
inline bool is_arrival(const ParamTask& task) {
    return task.uses(ParamSlot::plain);
}
inline bool is_sum_of_squares(const ParamTask& task) {
    return task.uses(ParamSlot::squares);
}
using IsParamTask = bool (*)(const ParamTask& task);

inline std::vector<ParamTask> params_of(const Schedule& schedule, IsParamTask is_wanted) {
    std::vector<ParamTask> found;
    std::ranges::copy_if(schedule.params, std::back_inserter(found), is_wanted);
    return found;
}
inline std::vector<ParamTask> updates_of(const Schedule& schedule) {
    return params_of(schedule, is_update);
}
inline std::vector<ParamTask> arrivals_of(const Schedule& schedule) {
    return params_of(schedule, is_arrival);
}

// Null: the task is of another kind.
inline const ParamTask* param_of(const Schedule& schedule, const Task& task, IsParamTask is_wanted) {
    if (task.verb != Verb::param) return nullptr;
    const ParamTask& param = schedule.params[at(task.payload)];
    return is_wanted(param) ? &param : nullptr;
}
inline bool is_mark(const Schedule& schedule, const Task& task) {
    return task.verb == Verb::host && !schedule.hosts[at(task.payload)].decides;
}
inline bool is_decision(const Schedule& schedule, const Task& task) {
    return task.verb == Verb::host && schedule.hosts[at(task.payload)].decides;
}

// Tasks of this kind get a kernel that outlives them, with another cell on the CPU; returns the cell that they had.
inline ParamCell replace_cell(ScheduleSet& set, IsParamTask is_wanted, ParamKernel& kernel, ParamCell cell) {
    ParamCell had = nullptr;
    for (Schedule& schedule : set.schedules) {
        for (ParamTask& task : schedule.params) {
            if (!is_wanted(task) || task.kernel == &kernel) continue;
            if (had == nullptr) {
                kernel = *task.kernel;
                had = kernel.cells[0];
                kernel.cells[0] = cell;
            }
            task.kernel = &kernel;
        }
    }
    return had;
}

}  // namespace windlass
