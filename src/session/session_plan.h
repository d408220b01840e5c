// session_plan.h: what a session leaves to the planner: the shape of its micro-batches, the format of its state, the
// directions of its steps.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "session/session.h"

namespace windlass {

// Optimizer steps of the run, 0 where neither max_steps nor rows say.
int64_t steps_of(const RunSpec& run);

// The shapes of a micro-batch to choose from: (rows, count). The configuration counts examples. UserError(usage) where
// there are too many rows.
std::vector<std::pair<int64_t, int64_t>> micro_choices(const RunSpec& run, const std::optional<RunState>& recorded);

// What was left open, and the plan for it.
struct PlanChoice {
    MethodOptions options;
    Recipe recipe;
    Numerics numerics;
    PlanRequest request;
    Planned planned;
    std::vector<std::string> notes;
};
// As `recorded` has it or as the planner finds best: the fastest shape of a micro-batch, the most exact format of the
// state that fits, and of directions, from the least on, as many as are nearly free. UserError(no_fit) where nothing
// fits.
PlanChoice choose_plan(const Session& session, const std::optional<RunState>& recorded);

}  // namespace windlass
