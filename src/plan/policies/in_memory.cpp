#include "plan/policies/policies.h"

namespace windlass {
namespace {

// Everything in memory. Weights never move, so each micro-batch makes its whole way and only one's activations live.
std::vector<Plan> candidates(const PlanRequest& request) {
    std::vector<Plan> plans;
    for (const bool recompute : recompute_choices(request)) {
        plans.push_back({.policy = "in_memory",
                         .device = request.device,
                         .threads = request.threads,
                         .order = MicroOrder::horizontal,
                         .recompute = recompute});
    }
    return plans;
}

}  // namespace

const Policy kInMemory = {"in_memory", candidates};

}  // namespace windlass
