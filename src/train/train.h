// train.h: a training run, from configuration to final/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/event_stream.h"
#include "base/file.h"
#include "base/log_file.h"
#include "config/config.h"
#include "session/run_control.h"
#include "train/trace_writer.h"

namespace windlass {

// A command that a user may type after a run.
struct NextCommand {
    std::string name;  // "chat" or "generate", "export", "upload"
    std::string command;
};

struct TrainResult {
    ExitCode code = ExitCode::ok;  // ok, or how RunControl says that it was stopped
    int64_t steps = 0;             // done, those before a resume included
    int64_t total_steps = 0;
    double loss = 0;                     // of the last step
    double eval_loss = 0;                // NaN without evaluation
    std::optional<double> eval_score;    // of a task: what the last evaluation measured (infer/task_evaluate.h)
    std::optional<int64_t> best_step;    // where steps are compared (state/best_step.h)
    std::string final_folder;            // empty when the run was stopped
    int64_t predicted_bytes = 0;         // memory
    int64_t predicted_device_bytes = 0;  // the part in a device's own memory
    int64_t peak_bytes = 0;
    std::string resume;             // continues a run that was stopped; empty: it is over, or kept no state
    std::vector<NextCommand> next;  // of a run that has a final/
};

// What the program that trains has to do with its run.
struct TrainHooks {
    RunControl* control = nullptr;  // null: nothing stops the run, or asks it for a checkpoint
    // Opened for the run's log.txt; null: it is closed again as the run ends, before a caller can say why it failed.
    LogFile* log = nullptr;
    EventStream* events = nullptr;  // opened for its events.jsonl; null: the file has what happens during the run
    TraceRequest trace;
};

// Runs to the end, until it is asked to stop, or throws: UserError(no_fit), (data), (model), (diverged) ...,
// MachineError.
TrainResult train(FileSystem& files, const Config& config, const TrainHooks& hooks = {});

}  // namespace windlass
