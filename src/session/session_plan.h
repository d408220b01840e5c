// session_plan.h: what a session leaves to the planner: the shape of its micro-batches, the format of its state, the
// directions of its steps.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "session/session.h"

namespace windlass {

// Optimizer steps of the run, 0 where neither max_steps nor rows say.
int64_t resolve_steps(Session& session);

// The shapes of a micro-batch to choose from: (rows, count). The configuration counts examples. UserError(usage) where
// there are too many rows.
std::vector<std::pair<int64_t, int64_t>> micro_choices(const Session& session, const std::optional<RunState>& recorded);

// Sets what was left open, as `recorded` has it or as the planner finds best, and `planned` with it: the fastest shape
// of a micro-batch, the most exact format of the state that fits, and of directions, from the least on, as many as are
// nearly free. UserError(no_fit) where nothing fits.
void plan_session(Session& session, const std::optional<RunState>& recorded);

}  // namespace windlass
