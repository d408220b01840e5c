// references.h: what the reference, the model as the run begins, says of the answers that it is compared by.
//
// Found once, with the run's own engine, before the first step: no second model is ever in memory. Kept in the run's
// folder, for when it goes on, and by content among the tokenised rows, for other runs of the same rows and model.
// Format: docs/format/references.md.
#pragma once

#include "base/file.h"
#include "persist/run_folder.h"
#include "run/engine.h"
#include "session/session.h"

namespace windlass {

// Fills Session::references and eval_references. The engine holds the weights of the run's beginning, unless it goes
// on. Throws UserError(storage) where it goes on and they are gone.
void find_references(FileSystem& files, Session& session, const RunFolder& folder, Engine& engine, bool goes_on);

}  // namespace windlass
