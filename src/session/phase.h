// phase.h: when a phase comes between two steps, and with which rows (method/phase.h).
#pragma once

#include "data/batch.h"
#include "method/phase.h"
#include "session/session.h"

namespace windlass {

// What the configuration asks for, of a model that is kept and trained as it will be. UserError(usage) where the
// model's adapter has none, or where it cannot be.
PhaseSettings phase_settings(const Config& config, const Recipe& recipe, const TrainedModel& model);

// The schedule of one: of the longest rows.
ScheduleRequest phase_request(const PhaseSettings& settings, const Numerics& numerics);

// Whether one is before the step that follows.
bool phase_is_due(const PhaseSettings& settings, const RunProgress& progress);

// The rows of the step that follows, and those after them, for the two halves of the phase's micro-batches.
StepBatch phase_batch(const Session& session, DataPosition position);

}  // namespace windlass
