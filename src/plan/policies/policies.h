// policies.h: the policies there are; all.cpp lists them.
#pragma once

#include "plan/planner.h"

namespace windlass {

extern const Policy kInMemory;
extern const Policy kHostStream;
extern const Policy kThreeTier;

// The parts of a space that policies have in common: what becomes of saved values as `recompute` allows, threads of
// the host lane, and one value for every knob that the policy does not turn.
Space common_space(const PlanRequest& request, const SpaceInput& input);
// Knobs of plans whose weights or state come from elsewhere while a step runs.
void add_streaming(Space& space, const PlanRequest& request, const SpaceInput& input);

}  // namespace windlass
