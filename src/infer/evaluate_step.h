// evaluate_step.h: one run of an engine's eval schedule, for what evaluates. For .cpp files of this floor.
#pragma once

#include <span>

#include "data/batch.h"
#include "run/engine.h"

namespace windlass {

int64_t rows_per_step(const Engine& engine);
StepBatch batch_of(const Engine& engine, std::span<const RowSamples> rows);
StepReport evaluate_step(Engine& engine, const StepBatch& batch, bool token_losses,
                         HeadResult result = HeadResult::loss);
// The sum over a row of a step, cut out of its micro-batches.
double row_loss(const StepReport& report, int64_t row, int64_t sequence_length);

}  // namespace windlass
