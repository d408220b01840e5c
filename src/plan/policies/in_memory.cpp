#include "plan/policies/policies.h"

namespace windlass {
namespace {

// Everything where it is computed with. Weights never move, so each micro-batch may make its whole way, and only one's
// activations live.
std::optional<Space> space(const PlanRequest& request, const SpaceInput& input) {
    if (request.update_time == "in_backward") return std::nullopt;  // a wrong guess could not be taken back
    Space made = common_space(request, input);
    made.base.policy = "in_memory";
    made.of(Knob::order) = {static_cast<int>(MicroOrder::horizontal)};
    if (request.update_time == "next_forward") made.of(Knob::update) = {static_cast<int>(UpdateTime::next_forward)};
    return made;
}

}  // namespace

const Policy kInMemory = {"in_memory", space};

}  // namespace windlass
