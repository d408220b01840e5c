// refresh.h: when projected layers are refreshed, and by which rows (method/projector/refresh.h).
#pragma once

#include "data/batch.h"
#include "session/session.h"

namespace windlass {

// What the configuration asks for, of a model that is kept and trained as it will be. UserError(usage) where there is
// nothing to refresh, or where it cannot be.
RefreshSettings refresh_settings(const Config& config, const Recipe& recipe, const TrainedModel& model);

// The schedule of one: of the longest rows.
ScheduleRequest refresh_request(const RefreshSettings& settings, const Numerics& numerics);

// Whether one is before the step that follows.
bool refresh_is_due(const RefreshSettings& settings, const RunProgress& progress);

// The rows of the step that follows, and those after them, for the two halves of the refresh's micro-batches.
StepBatch refresh_batch(Session& session, DataPosition position);

}  // namespace windlass
