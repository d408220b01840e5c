// at_once_fixture.h: ways to train with gradients that are used at once, and plans for them.
#pragma once

#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {

inline EngineOptions at_once_options(const char* method, bool split, double max_grad_norm = 0) {
    return {.method_name = method,
            .method = {.weight_decay = 0.1, .max_grad_norm = max_grad_norm, .split_masters = split}};
}

inline std::vector<Plan> at_once_plans(const TrainedModel& model) {
    std::vector<Plan> plans;
    for (const Plan& plan : with_mixed(all_plans(), model)) plans.push_back(at_once(plan));
    return plans;
}

}  // namespace windlass
