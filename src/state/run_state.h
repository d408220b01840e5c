// run_state.h: what a run must remember beside weights and moments, as JSON in checkpoints and store commits.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/data.h"
#include "schedule/numerics.h"
#include "state/lr_schedule.h"

namespace windlass {

// Values of these keys (config.h, kUpdateSettings).
using UpdateSettings = std::map<std::string, double>;

// Keys that no other field of a run state says, with their values as texts.
using RunSettings = std::map<std::string, std::string>;

struct RunState {
    std::string run_id;     // run_identity.h; empty: of a run that was begun before there were any
    int64_t step = 0;       // optimizer steps done
    DataPosition position;  // the row that the next step starts with
    uint64_t seed = 0;
    std::string method;
    std::string data_fingerprint;
    std::vector<std::string> param_groups;  // param_group_text.h
    std::string weight_storage = "as_file";
    // Whether what is not trained has low halves in the run's stores, as it had in older runs.
    bool frozen_is_split = false;
    std::string fold_updates = "each_step";
    UpdateSettings update;             // of methods that keep no log; empty: not recorded, in older runs
    RunSettings settings;              // empty: not recorded, in older runs
    int directions = 1;                // of a step of a forward-only method
    std::vector<int> scale_exponents;  // by parameter, where weights are kept in 8 bits; else empty
    Numerics numerics;
    LrSchedule schedule;
    int64_t tokens_total = 0;
    double last_loss = 0;                          // of the last step that was applied
    int64_t bad_steps = 0;                         // not finite, or above the watchdog's threshold, in a row
    int64_t applied_steps = 0, clipped_steps = 0;  // how often a guess that nothing is clipped would have been wrong
    std::string last_line;  // of metrics.jsonl: the line of this step, should a kill part it from its commit
};

std::string run_state_text(const RunState& state);
// UserError(storage) naming `where`: not this version's, damaged.
RunState parse_run_state(std::string_view text, std::string_view where);

// Refuses to continue `recorded` as `current`: UserError(usage) names every difference that would change the bits
// (numerics, seed, method, parameter groups, weight storage, rows, recorded settings). Returns what may
// differ and does (OnResume::warned), for a warning.
std::vector<std::string> require_same_run(const RunState& recorded, const RunState& current, std::string_view where);

// The same for what AdamW's steps depend on: UserError(usage) names what differs and is not among `allowed`, and
// what is among them is returned. A warning names what a run does not say that was begun before this was recorded.
std::vector<std::string> require_same_update(const RunState& recorded, const RunState& current,
                                             std::span<const std::string> allowed, std::string_view where);

}  // namespace windlass
