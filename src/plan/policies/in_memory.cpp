#include "plan/policies/policies.h"

namespace windlass {
namespace {

// Everything where it is computed with. Weights never move, so each micro-batch may make its whole way, and only one's
// activations live.
std::optional<Space> space(const PlanRequest& request, const SpaceInput& input) {
    Space made = common_space(request, input);
    made.base.policy = "in_memory";
    made.of(Knob::order) = {static_cast<int>(MicroOrder::micro_batch_first)};
    return made;
}

}  // namespace

const Policy kInMemory = {"in_memory", space};

}  // namespace windlass
