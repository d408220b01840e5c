// gradients.h: gradients on their way from sums to what the update reads (method/gradient_format.h).
#pragma once

#include <span>

#include "method/step.h"
#include "run/task_memory.h"
#include "schedule/schedule.h"

namespace windlass {

// `elements`: by parameter, of its first number in the model.
void round_gradients(const RoundTask& task, const Numerics& numerics, std::span<const int64_t> elements,
                     const StepParams& step, const LaunchedMemory& memory);

// A chunk's gradient in f32: where it lies, or widened into what the task has for that, until the next chunk's is.
const float* wide_gradient(const UpdateTask& update, const UpdateChunk& chunk, const LaunchedMemory& memory);

}  // namespace windlass
