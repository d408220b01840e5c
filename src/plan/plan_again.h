// plan_again.h: a plan that a search found before, rebuilt without a search.
#pragma once

#include <optional>

#include "plan/planner.h"

namespace windlass {

// The plan of this choice, lowered, checked and simulated as after a search; `evaluations` is 0. Nothing if the policy
// has no such choice for this request, or if the plan exceeds a budget. So a choice from a file can be stale or wrong
// without harm.
std::optional<Planned> plan_again(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics,
                                  const Machine& machine, const PlanRequest& request, const FoundChoice& found);

}  // namespace windlass
