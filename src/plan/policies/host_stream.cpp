#include "plan/policies/policies.h"

namespace windlass {
namespace {

// Weights, state and gradients in host memory, for a device that has memory of its own: weights go up block by block,
// gradients come down, and the host updates. What the device has room for stays there: whole blocks, or the weights of
// blocks alone, into which the host's updates go up.
std::optional<Space> space(const PlanRequest& request, const SpaceInput& input) {
    if (!request.device.own_memory) return std::nullopt;
    Space made = common_space(request, input);
    made.base.policy = "host_stream";
    made.near = made.far = Home::host;
    made.of(Knob::resident) = {0, 4, 8, 12};
    made.of(Knob::held_weights) = {0, 2, 4, 6, kShares};
    made.of(Knob::device_groups) = {0, 8, 4, 3, 2};
    add_streaming(made, request, input);
    return made;
}

}  // namespace

const Policy kHostStream = {"host_stream", space};

}  // namespace windlass
