#include "plan/needs.h"

#include <algorithm>

#include "schedule/layout.h"

namespace windlass {
namespace {

// The file has room for the gradients of all that is trained as soon as one block's go there.
int64_t gradient_spill_bytes(const TrainedModel& model, const Numerics& numerics, const Plan& plan) {
    const auto all = model.all_params();
    const bool spills = std::ranges::any_of(
        all, [&](const Param& param) { return param.trains() && plan.of(param.spec.block).gradients == Home::disk; });
    int64_t bytes = 0;
    for (const Param param : all) {
        if (spills && param.trains()) bytes += gradient_param_bytes(numerics.gradient_format, param.numel());
    }
    return bytes;
}

}  // namespace

Totals totals(const TrainedModel& model, const Numerics& numerics, const PlanRequest& request, const Plan& plan,
              const Needs& needs) {
    const bool apart = plan.own_memory();
    return {.memory = needs.arena_bytes[slot(apart ? TierKind::host : TierKind::device)] + request.budgets.process +
                      // Only a store can be exported while steps run: without one the steps change what would be read.
                      (plan.store ? request.budgets.exporter : 0),
            .device = apart ? needs.arena_bytes[slot(TierKind::device)] : 0,
            .store = plan.store ? needs.store_bytes : 0,
            .spill = gradient_spill_bytes(model, numerics, plan) + needs.activation_file_bytes};
}

Evaluation evaluation_of(const TrainedModel& model, const Numerics& numerics, const PlanRequest& request,
                         const Plan& plan, const Needs& needs) {
    const Totals total = totals(model, numerics, request, plan, needs);
    return {.seconds = needs.seconds + request.clip_frequency * needs.redo_seconds,
            .memory_bytes = total.memory,
            .device_bytes = total.device,
            .disk_bytes = total.store + total.spill,
            .write_bytes = needs.disk_write_bytes};
}

Limits limits_of(const Budgets& budgets) {
    return {.memory = budgets.ram,
            .device = budgets.device,
            .disk = budgets.disk,
            .writes = budgets.step_disk_writes > 0 ? budgets.step_disk_writes : Limits::kNone};
}

}  // namespace windlass
