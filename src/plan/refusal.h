// refusal.h: what is said when nothing fits: the need, the budgets, and the smallest change that would be enough.
#pragma once

#include <string_view>
#include <vector>

#include "plan/planner.h"
#include "plan/search.h"

namespace windlass {

// Between what may be tried: a line each.
inline constexpr std::string_view kNextWayOut = "\n   or: ";

// A choice that was evaluated.
struct Refused {
    std::string_view policy;
    bool recomputes = false;
    Evaluation evaluation;
};

// Throws UserError(no_fit).
[[noreturn]] void refuse(const std::vector<Refused>& refused, const PlanRequest& request);
// Throws UserError(gpu) naming the first kernel that steps of this recipe need and this build has not for the device.
void require_kernels(const ModelSpec& model, const Recipe& recipe, DeviceKind device);
// Throws UserError(usage): there is no such policy.
[[noreturn]] void refuse_policy(std::string_view policy);

}  // namespace windlass
