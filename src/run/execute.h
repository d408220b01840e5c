// execute.h: does what a schedule says, task by task, in the lanes of run/task_lanes.h. It chooses nothing.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "run/arenas.h"
#include "run/engine.h"
#include "run/generated_answers.h"
#include "run/lane_streams.h"
#include "run/lane_workers.h"
#include "run/movers.h"
#include "run/recent_steps.h"
#include "run/working_store.h"

namespace windlass {

// What executing needs besides the schedule; everything outlives the call.
struct ExecuteContext {
    const EngineSetup& setup;
    const Arenas& arenas;
    LaneStreams& streams;
    WorkingStore* store = nullptr;  // where the plan has one
    Movers& movers;
    LaneWorkers& workers;
    std::span<const int64_t> elements;  // by parameter (global_offsets)
    std::atomic<bool>& stop;
    const StepParams* deferred = nullptr;  // of the update that the step before deferred; null: none
    // Forward-only methods: the steps whose updates weights lack, and whether this one writes them back.
    const RecentSteps* recent = nullptr;
    std::span<const LowRankSum* const> sums;  // by parameter: of weights that are never merged, else null
    bool writes_back = true;
    GeneratedAnswers* answers = nullptr;  // where points read rows of their own: those, given what this round finds
    std::function<void()>
        mark;  // what was deferred has landed: everywhere, or in place alone where nothing is written back

    bool holds() const { return deferred != nullptr || (recent != nullptr && recent->deferred() > 0); }
};

// Fills loss_sum, grad_norm, clip_scale, applied, seconds, busy_seconds and tasks. Throws the first failure;
// Error(interrupted) when asked to stop before it was done: nothing was applied to a state that has no other version.
StepReport execute(const Schedule& schedule, ExecuteContext& context, const StepInput& input);

}  // namespace windlass
