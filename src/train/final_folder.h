// final_folder.h: what a run ends with: final/, a model folder or an adapter, and in it a manifest that says which
// step's weights these are, and with which state the run ended.
//
// The manifest is the last thing that a run writes: with it the run is over, and nothing is left to make up for.
#pragma once

#include <optional>

#include "base/file.h"
#include "model/save.h"
#include "persist/run_folder.h"
#include "session/session.h"
#include "state/run_state.h"

namespace windlass {

// The run is to end with the best step's weights, and that is not its last step.
bool ends_with_earlier_step(const Session& session, const RunProgress& progress);

// No step is left: the last one is done, or the run gave up on a better one.
bool is_over(const Session& session, const RunProgress& progress);

// The texts that the model's own files do not have, in the run's folder, where exports find them.
void keep_changed_texts(FileSystem& files, const Session& session, const RunFolder& folder);

// The step that `masters` has, which the run came to with `state`, without a manifest.
void write_final(FileSystem& files, const Session& session, const RunFolder& folder, const RunState& state,
                 const ReadMasters& masters);
// The manifest of weights of step `step`, of a run that ended with `state`.
void seal_final(FileSystem& files, const RunFolder& folder, int64_t step, const RunState& state);
// Both, of a step that has a checkpoint. UserError(storage) where that is damaged.
void write_final_of_checkpoint(FileSystem& files, const Session& session, const RunFolder& folder, int64_t step,
                               const RunState& state);

// The state with which the run of this folder ended. Nothing where final/ does not say, lacks a file that its manifest
// names, or is of another run or of steps that were undone. UserError(storage) for a run of another format.
std::optional<RunState> ended_state(FileSystem& files, const std::string& run_folder);

}  // namespace windlass
