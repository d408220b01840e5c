// rewind.h: back to a step without a kept state: what a run remembers there, and which files are later than it.
//
// Weights come from the log (replay.h). The position in the data and the counters follow from an older state: the order
// of rows is a function of the seed, and the log says which steps were applied.
#pragma once

#include <string>

#include "base/file.h"
#include "config/config.h"
#include "persist/run_folder.h"
#include "session/session.h"
#include "state/run_state.h"

namespace windlass {

// The state of the session's run after `step`, from the one after an earlier step, in the order of the log in
// `folder`, which holds both. Losses are those of metrics.jsonl, where it is there.
RunState state_behind(FileSystem& files, const Session& session, const std::string& folder, const RunState& from,
                      int64_t step);

// Checkpoints after `step` are no longer of the run: they become undone-checkpoint-<step>. UserError for none.
void set_aside_checkpoints(FileSystem& files, const std::string& folder, int64_t step);

// What branch_from says: "RUN" or "RUN@STEP".
struct BranchSource {
    std::string run;
    std::string step;  // empty: the last one of its log
};
BranchSource parse_branch(FileSystem& files, const std::string& text);
// Where a branch starts: the run's newest checkpoint at or before that step, or its base, and the log from there on.
// UserError(usage) for a folder without a log, for a step that it does not hold, and while the run is in progress.
StartPoint find_branch(FileSystem& files, const Config& config);
// Puts into the branch's folder what it has in common with that run: the log up to the step, whose origin says where it
// is from, and the lines of metrics.
void begin_branch(FileSystem& files, const Config& config, const StartPoint& start);

}  // namespace windlass
