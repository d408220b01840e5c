// refusal.h: what is said when nothing fits, and what is refused whatever the budgets.
#pragma once

#include <string_view>
#include <vector>

#include "plan/planner.h"
#include "plan/search.h"

namespace windlass {

// A choice that was evaluated.
struct Refused {
    std::string_view policy;
    bool recomputes = false;
    Evaluation evaluation;
};

// The refused plan that comes nearest. `shrinks`: whether less in a step could be enough, as what outlives steps fits.
// Throws UserError(usage) for an empty list: the policy is not for this device.
NoFit nearest_fit(const std::vector<Refused>& refused, const PlanRequest& request, const Machine& machine,
                  bool shrinks = true);
// Throws UserError(gpu) naming the first kernel that steps of this recipe need and this build has not for the device.
void require_kernels(const ModelSpec& model, const Recipe& recipe, DeviceKind device);
// Throws UserError(usage): there is no such policy.
[[noreturn]] void refuse_policy(std::string_view policy);

}  // namespace windlass
