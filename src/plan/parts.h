// parts.h: what a question to the planner is searched in: the spaces of its policies, each by share of resident blocks.
#pragma once

#include <vector>

#include "plan/planner.h"
#include "plan/space.h"

namespace windlass {

// What is searched by itself: a policy's space under one share of blocks that are whole on the device.
struct Part {
    const Policy* policy = nullptr;
    Space space;
    bool moves_most = false;  // of its policy's: the least share
};

// Of the policies that are asked for, except those that are not for this device or these budgets. Throws
// UserError(usage) if there is no such policy.
std::vector<Part> parts_of(const TrainedModel& model, const Recipe& recipe, const PlanRequest& request,
                           const SavedRanks& ranks);

// The request of the most tokens, which saved values are ranked for.
const ScheduleRequest& largest_request(const PlanRequest& request);

}  // namespace windlass
