// param_task.h: a param task's kernel, called on what its buffers hold: chunk by chunk, parameter by parameter, or on a
// group at once, as its record says.
#pragma once

#include <span>
#include <vector>

#include "run/engine.h"
#include "run/recent_steps.h"
#include "run/task_memory.h"

namespace windlass {

// What a param task goes by, besides itself and its memory.
struct ParamContext {
    const EngineSetup& setup;
    std::span<const int64_t> elements;  // by parameter, of its first number in the model (global_offsets)
    const StepParams& step;             // that it goes by
    DType compute = DType::f32;
    // Forward-only methods: the steps whose updates weights lack, and whether this one writes them back.
    const RecentSteps* recent = nullptr;
    std::span<const LowRankSum* const> sums;
    bool writes_back = true;
};

// Appends what a kernel over a group found to `reports`.
void perform_param(const ParamTask& task, const ParamContext& context, const LaunchedMemory& memory,
                   std::vector<GroupReport>& reports);

}  // namespace windlass
