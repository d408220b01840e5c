// run_state.h: what a run must remember besides weights and moments, as JSON in checkpoints and store commits: which
// run it is, and how far.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/data.h"
#include "state/best_step.h"
#include "state/identity.h"

namespace windlass {

struct RunProgress {
    int64_t step = 0;       // optimizer steps done
    DataPosition position;  // the row that the next step starts with
    int64_t tokens_total = 0;
    double last_loss = 0;                          // of the last step that was applied
    int64_t bad_steps = 0;                         // not finite, or above the watchdog's threshold, in a row
    int64_t phase_before = 0;                      // the step before which a phase came last; 0: none
    int64_t applied_steps = 0, clipped_steps = 0;  // how often a guess that nothing is clipped would have been wrong
    BestStep best;
    std::string last_line;  // of metrics.jsonl: the line of this step, should a kill part it from its commit
};

struct RunState {
    Identity identity;
    RunProgress progress;
};

std::string run_state_text(const RunState& state);
// UserError(storage) naming `where`: not this version's, damaged.
RunState parse_run_state(std::string_view text, std::string_view where);

}  // namespace windlass
