// updates_once.h: in every lowered schedule each trained parameter's update takes effect once, element by element: when
// it is known, on a guess, or deferred; and what is done again, or flushed, is what was speculative, or deferred.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/index.h"
#include "schedule/lower.h"
#include "tests/unit/schedule/param_tasks.h"

namespace windlass {

// Elements that a schedule updates, by parameter.
struct UpdateCounts {
    std::vector<int64_t> known, speculative, deferred;
    explicit UpdateCounts(size_t params) : known(params), speculative(params), deferred(params) {}
};

inline UpdateCounts updated_by(const Schedule& schedule, const TrainedModel& model) {
    UpdateCounts found(model.params.size());
    bool norm_is_known = false;
    for (const Task& task : schedule.tasks) {
        norm_is_known |= is_decision(schedule, task);
        if (const ParamTask* const arrival = param_of(schedule, task, is_arrival)) {
            for (const ParamChunk& each : arrival->chunks)
                if (each.updates) found.deferred[at(each.param)] += model.param(each.param).numel();
        }
        const ParamTask* const update = param_of(schedule, task, is_update);
        if (update == nullptr) continue;
        EXPECT_TRUE(norm_is_known || task.when == When::deferred || update->speculative ||
                    !schedule.name.starts_with("train"))
            << schedule.name;
        auto& list = task.when == When::deferred ? found.deferred
                     : update->speculative       ? found.speculative
                                                 : found.known;
        for (const ParamChunk& chunk : update->chunks) {
            EXPECT_EQ(chunk.first, list[at(chunk.param)]) << model.params[at(chunk.param)].name;
            list[at(chunk.param)] += chunk.count;
        }
    }
    return found;
}

inline void expect_updates_once(const TrainedModel& model, const ScheduleSet& set) {
    for (const Schedule& schedule : set.schedules) {
        const UpdateCounts found = updated_by(schedule, model);
        const bool trains = schedule.name.starts_with("train");
        for (int index = 0; index < model.param_size(); ++index) {
            const Param param = model.param(index);
            const bool is_stored_to = param.trains() && param.perturb.merge != Merge::never;
            const std::array lists = {found.known[at(index)], found.speculative[at(index)], found.deferred[at(index)]};
            int64_t sum = 0;
            for (const int64_t elements : lists) {
                EXPECT_TRUE(elements == 0 || elements == param.numel()) << schedule.name << ": " << param.spec.name;
                sum += elements;
            }
            if (trains) {
                EXPECT_EQ(sum, is_stored_to ? param.numel() : 0) << schedule.name << ": " << param.spec.name;
            }
        }
        if (!trains) continue;
        const std::vector<int64_t> none(model.params.size());
        const auto expect_again = [&](const char* name, const std::vector<int64_t>& elements) {
            const Schedule* const again = set.find(name);
            EXPECT_EQ(again != nullptr, elements != none) << name;
            if (again == nullptr) return;
            const UpdateCounts done = updated_by(*again, model);
            EXPECT_EQ(done.known == none ? done.deferred : done.known, elements) << name;
        };
        expect_again("redo", found.speculative);
        expect_again("flush", found.deferred);
    }
}

}  // namespace windlass
