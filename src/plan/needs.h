// needs.h: what a plan takes of each budget, from its schedules or from an estimate.
#pragma once

#include <array>

#include "plan/planner.h"
#include "plan/search.h"

namespace windlass {

// What a plan takes, known from its schedules or estimated.
struct Needs {
    double seconds = 0, redo_seconds = 0;
    std::array<int64_t, kTierKinds> arena_bytes{};
    int64_t store_bytes = 0;  // where the plan has a store
    int64_t activation_file_bytes = 0;
    int64_t disk_write_bytes = 0;
};

// Bytes by place, as Planned has them.
struct Totals {
    int64_t memory = 0, device = 0, store = 0, spill = 0;
};
Totals totals(const TrainedModel& model, const Numerics& numerics, const PlanRequest& request, const Plan& plan,
              const Needs& needs);

// The same as a search compares it, against no limits.
Evaluation evaluation_of(const TrainedModel& model, const Numerics& numerics, const PlanRequest& request,
                         const Plan& plan, const Needs& needs);

Limits limits_of(const Budgets& budgets);

}  // namespace windlass
