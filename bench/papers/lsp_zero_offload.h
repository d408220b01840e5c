// lsp_zero_offload.h: ZeRO-Offload's step (arXiv 2101.06840): weights stay on the device, gradients go down in
// backward, the host updates behind it, and weights come up behind the last update.
#pragma once

#include "method/recipe.h"
#include "schedule/machine.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"

namespace windlass {

// Every copy up of what was updated behind the last update: in the list, and by what it reads. Before check.
void wait_for_all_updates(ScheduleSet& set);

struct ZeroOffloadStep {
    double seconds = 0;
    int64_t device_bytes = 0;
};
// With activations computed again; the norm stands before the updates.
ZeroOffloadStep zero_offload_step(const TrainedModel& model, const Numerics& numerics, const Machine& machine);

}  // namespace windlass
