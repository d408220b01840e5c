#include "plan/policies/policies.h"

namespace windlass {
namespace {

struct Homes {
    Home weights, gradients;
};

// Optimizer state on disk; weights and gradients too, when memory does not hold them. Micro-batches run layer by
// layer, so that weights cross the disk once a sweep however long the accumulation is.
std::vector<Plan> candidates(const PlanRequest& request) {
    static constexpr Homes kHomes[] = {
        {Home::memory, Home::memory}, {Home::memory, Home::disk}, {Home::disk, Home::memory}, {Home::disk, Home::disk}};
    std::vector<Plan> plans;
    for (const Homes& homes : kHomes) {
        for (const bool recompute : recompute_choices(request)) {
            for (const int read_ahead : {2, 1, 0}) {
                plans.push_back({.policy = "three_tier",
                                 .device = request.device,
                                 .threads = request.threads,
                                 .weights = homes.weights,
                                 .state = Home::disk,
                                 .gradients = homes.gradients,
                                 .order = MicroOrder::vertical,
                                 .recompute = recompute,
                                 .read_ahead = read_ahead});
            }
        }
    }
    return plans;
}

}  // namespace

const Policy kThreeTier = {"three_tier", candidates};

}  // namespace windlass
