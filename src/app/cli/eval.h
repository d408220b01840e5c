// eval.h: what the parts of `windlass eval` share.
#pragma once

#include <cstdint>
#include <vector>

#include "app/cli/verbs.h"
#include "infer/inference.h"
#include "rows/token_cache.h"

namespace windlass {

// Eval schedules for rows of these lengths.
InferenceShape eval_shape(const Config& config, const std::vector<uint32_t>& lengths);

// Reports what the rows hold, unless reading a single file has reported it.
void log_rows(const TokenCache& rows, int64_t files);

// How good the model is at config.task.
ExitCode report_task(OpenModel& opened, const Config& config, const EvalArgs& args, VerbOutput& out);
// How it judges pairs of answers, by config.objective.
ExitCode report_pairs(OpenModel& opened, const Config& config, const EvalArgs& args, VerbOutput& out);

}  // namespace windlass
