// refresh.h: a refresh of one projected layer (method/projector/refresh.h) where the schedule has its numbers.
#pragma once

#include <span>

#include "run/engine.h"
#include "run/task_memory.h"

namespace windlass {

// `elements`: by parameter, of its first number in the model.
RefreshedLayer refresh_layer(const RefreshTask& task, const EngineSetup& setup, std::span<const int64_t> elements,
                             const StepParams& step, const LaunchedMemory& memory);

}  // namespace windlass
