#include "plan/policies/policies.h"

namespace windlass {
namespace {

// A working store on disk that every step writes; memory holds what it can of weights, state and gradients, so that it
// need not be read.
std::optional<Space> space(const PlanRequest& request, const SpaceInput& input) {
    Space made = common_space(request, input);
    made.base.policy = "three_tier";
    made.base.store = true;
    made.near = request.device.own_memory ? Home::host : Home::device;
    made.far = Home::disk;
    made.of(Knob::weights) = made.of(Knob::state) = {0, 2, 4, 6, kShares};
    made.of(Knob::gradients) = {0, 4, kShares};
    add_streaming(made, request, input);
    return made;
}

}  // namespace

const Policy kThreeTier = {"three_tier", space};

}  // namespace windlass
