// policies.h: the policies there are; all.cpp lists them.
#pragma once

#include "plan/planner.h"

namespace windlass {

extern const Policy kInMemory;
extern const Policy kThreeTier;

// The recompute settings that a request allows, the faster first.
std::vector<bool> recompute_choices(const PlanRequest& request);

}  // namespace windlass
