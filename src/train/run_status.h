// run_status.h: how a run is doing, read from its folder while it trains or after it: for `windlass status` and `runs`.
//
// Nothing is written, and nothing that is read is trusted: a line that cannot be read counts as none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json_fwd.h"

namespace windlass {

enum class RunPhase : uint8_t {
    training,  // a process holds the folder
    done,
    stopped,  // on request; it can go on
    failed,   // with an error
    killed    // it ended without a word
};
std::string_view run_phase_name(RunPhase phase);

struct RunStatus {
    std::string folder, run_id;
    RunPhase phase = RunPhase::killed;
    std::optional<ExitCode> code;  // with which its last process ended, where it said so
    std::string reason;            // of a run that failed
    int64_t step = 0;              // the last that has a line
    std::optional<int64_t> total_steps;
    std::optional<double> loss, eval_loss, step_seconds, predicted_seconds, tokens_per_second;
    std::optional<double> eta_seconds;                // of a run that trains
    std::optional<double> updated;                    // when the last line was written, seconds since 1970
    std::optional<int64_t> ram_bytes, planned_bytes;  // the most until now; as planned
    std::vector<int64_t> checkpoints;                 // steps, rising
    bool has_final = false;
    bool may_resume = false;  // it has saved something, or keeps its state on a drive
};

// UserError(usage) where the folder is no run's.
RunStatus read_run_status(FileSystem& files, const std::string& run_folder);
Json run_status_json(const RunStatus& status);
// Some lines, ended.
std::string run_status_text(const RunStatus& status);
// "step 120 of 900", with the loss where there is one: a short line for one who waits.
std::string run_status_line(const RunStatus& status);

// Folders of runs at or below `folder`, by name, no deeper than three folders; of more than a thousand the first ones.
std::vector<std::string> find_runs(FileSystem& files, const std::string& folder);

}  // namespace windlass
