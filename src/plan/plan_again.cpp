#include "plan/plan_again.h"

#include <algorithm>

#include "plan/binding.h"
#include "plan/parts.h"
#include "plan/refusal.h"

namespace windlass {
namespace {

bool has_choice(const Space& space, const Choice& choice) {
    for (size_t knob = 0; knob < kKnobs; ++knob) {
        if (std::ranges::find(space.values[knob], choice[knob]) == space.values[knob].end()) return false;
    }
    return true;
}

bool is_within(const Planned& planned, const Budgets& budgets) {
    const int64_t writes = planned.step.demand.disk_write_bytes;
    return planned.memory_bytes <= budgets.ram && planned.device_bytes <= budgets.device &&
           planned.disk_bytes <= budgets.disk && (budgets.step_disk_writes == 0 || writes <= budgets.step_disk_writes);
}

}  // namespace

std::optional<Planned> plan_again(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics,
                                  const Machine& machine, const PlanRequest& request, const FoundChoice& found) {
    if (request.device.kind != DeviceKind::fake) require_kernels(model, recipe, request.device.kind);
    const SavedRanks ranks = rank_saved(model, largest_request(request), request.device.kind, numerics, machine);
    for (const Part& part : parts_of(model, recipe, request, ranks)) {
        // A kept choice may be of an earlier version, whose spaces had other values.
        if (part.policy->name != found.policy || !has_choice(part.space, found.choice)) continue;
        Planned planned = evaluate_plan(model, recipe, numerics, machine, request,
                                        plan_of(part.space, found.choice, ranks, programs_of(model)));
        // Budgets may have shrunk since: then a search decides.
        if (!is_within(planned, request.budgets)) return std::nullopt;
        planned.choice = found.choice;
        planned.binding = find_binding(planned, machine);
        return planned;
    }
    return std::nullopt;
}

}  // namespace windlass
