// run_task.h: a run task's kernels, called on what its buffers hold.
#pragma once

#include "run/engine.h"
#include "run/task_memory.h"

namespace windlass {

// What a run task goes by, besides itself and its memory.
struct RunContext {
    const EngineSetup& setup;
    const Schedule& schedule;
    const Batch& batch;
    const HeadParams& head;
};

// Aborts where the batch is not of the schedule's shape.
void run_task(const RunTask& task, const RunContext& context, const LaunchedMemory& memory);

}  // namespace windlass
