// next_batch.h: the rows of one step, in the order of the run.
#pragma once

#include <string_view>

#include "data/batch.h"
#include "session/session.h"

namespace windlass {

// From `position` on, which then is after them. Rows without a single target (which tokenising leaves out already)
// are skipped. UserError(data) where there are no others.
StepBatch next_batch(const Session& session, const References& references, DataPosition& position);

// UserError(storage) naming `where` if the row with which a run says to continue is not the one that its steps lead to.
void require_position(const Session& session, const RunProgress& progress, std::string_view where);

}  // namespace windlass
