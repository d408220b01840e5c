// final_folder.h: what a run ends with: final/, a model folder or an adapter, and in it a manifest that says which
// step's weights these are.
#pragma once

#include "base/file.h"
#include "model/save.h"
#include "persist/run_folder.h"
#include "session/session.h"
#include "state/run_state.h"

namespace windlass {

// The run is to end with the best step's weights, and that is not its last step.
bool ends_with_earlier_step(const Session& session, const RunProgress& progress);

// The step that `masters` has.
void write_final(FileSystem& files, const Session& session, const RunFolder& folder, const RunState& state,
                 const ReadMasters& masters);
// A step of which there is a checkpoint. UserError(storage) where that is damaged.
void write_final_of_checkpoint(FileSystem& files, const Session& session, const RunFolder& folder, int64_t step);

}  // namespace windlass
