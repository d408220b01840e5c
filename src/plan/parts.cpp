#include "plan/parts.h"

#include <algorithm>
#include <utility>

#include "base/math.h"
#include "plan/refusal.h"

namespace windlass {
namespace {

SpaceInput space_input(const TrainedModel& model, const SavedRanks& ranks) {
    SpaceInput input{.saved_most = most_saved(ranks)};
    std::vector<int> chunks(model.blocks.size(), 0);
    for (const Param param : model.all_params())
        chunks[static_cast<size_t>(param.spec.block)] += static_cast<int>(div_up(param.numel(), kChunkElements));
    input.block_chunks = *std::max_element(chunks.begin(), chunks.end());
    return input;
}

}  // namespace

std::vector<Part> parts_of(const TrainedModel& model, const Recipe& recipe, const PlanRequest& request,
                           const SavedRanks& ranks) {
    const SpaceInput input = space_input(model, ranks);
    std::vector<Part> parts;
    bool known = request.policy.empty();
    for (const Policy* policy : all_policies()) {
        known = known || policy->name == request.policy;
        if (!request.policy.empty() && request.policy != policy->name) continue;
        std::optional<Space> space = policy->space(request, input);
        if (!space) continue;
        if (recipe.probes()) space = forward_only(std::move(*space), model, recipe, request.writeback_steps);
        // Weights are held for updates on the host, which need gradients.
        if (!recipe.runs(PassKind::backward)) space->of(Knob::held_weights) = space->of(Knob::device_groups) = {0};
        if (recipe.uses_gradients_at_once()) space = at_once(std::move(*space));
        const int least = space->of(Knob::resident)[0];
        // Each share is searched by itself: what it takes of one memory it spares in the other, so no share takes the
        // least of both.
        for (Space& each : by_residence(*space)) {
            const bool moves_most = each.of(Knob::resident)[0] == least;
            parts.push_back({policy, std::move(each), moves_most});
        }
    }
    if (!known) refuse_policy(request.policy);
    return parts;
}

const ScheduleRequest& largest_request(const PlanRequest& request) {
    return *std::max_element(request.schedules.begin(), request.schedules.end(),
                             [](const ScheduleRequest& a, const ScheduleRequest& b) {
                                 return a.rows * a.sequence_length < b.rows * b.sequence_length;
                             });
}

}  // namespace windlass
