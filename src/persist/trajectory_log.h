// trajectory_log.h: the log that a forward-only run keeps in its folder (docs/format/trajectory.md), and next to it the
// run state after the last step.
//
//   trajectory.wlt   trajectory.json
//
// A step is durable once both hold it: its record first, then the state, each synced. So a run in memory loses the step
// in flight at most: where it resumes from an older state, replay.h takes the steps from there to the log's last.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/file.h"
#include "format/trajectory.h"
#include "method/forward_only/materialize.h"
#include "model/save.h"
#include "run/engine.h"
#include "session/session.h"
#include "state/run_state.h"

namespace windlass {

inline constexpr const char* kTrajectoryName = "trajectory.wlt";
inline constexpr const char* kTrajectoryStateName = "trajectory.json";

// The run state after the last step that the log and the file next to it both hold; nothing where there is no log, or
// where that file is gone (a warning says so). UserError(storage) for a damaged log, and for a state that is damaged or
// does not fit it.
std::optional<RunState> logged_state(FileSystem& files, const std::string& run_folder);

// What the log of this session says before its first record, but for first_step and base.weights_sum.
TrajectoryHeader trajectory_header(const Session& session);
// Which weights these are: reads all of them once. Keeps a chunk of masters in memory; a team has `threads` threads.
TrajectoryBase describe_base(const std::string& name, const TrainedModel& model, const ReadMasters& masters,
                             int threads);
// What all updates of a log have in common. UserError(storage, where) for directions and rules that this version does
// not know.
PerturbStep noise_of(const TrajectoryHeader& header, std::string_view where);
// A step of this log. Only what its update depends on is set.
StepParams step_of(const TrajectoryHeader& header, const TrajectoryRecord& record, PerturbStep noise);

// Steps of a log as updates take them (MaterializeCall::steps).
struct LoggedSteps {
    std::vector<StepParams> steps;  // that were applied, oldest first: history, and what is deferred
    int deferred = 0;
};
// Pending are those after step `home` up to and with step `last`; the log holds both (home: or is its base).
LoggedSteps logged_steps(TrajectoryReader& log, int64_t home, int64_t last);

// Calls body(step) for each step up to `last` that was applied, in order.
void for_logged_steps(TrajectoryReader& log, int64_t last, const std::function<void(const StepParams&)>& body);

class TrajectoryLog {
  public:
    // A new log, where there is none, after `state`, with the weights that `masters` gives.
    static TrajectoryLog begin(FileSystem& files, const std::string& run_folder, const Session& session,
                               const RunState& state, const std::string& base_name, const ReadMasters& masters);
    // Continues after `state`: steps after it are cut off, which a log line says. UserError(usage) naming what differs
    // where the log is another run's, and where it ends before `state`.
    static TrajectoryLog resume(FileSystem& files, const std::string& run_folder, const Session& session,
                                const RunState& state);

    // The step that `state` ends with. Durable on return.
    void add(const StepReport& report, const RunState& state);
    int64_t last_step() const { return last_step_; }

  private:
    TrajectoryLog(FileSystem& files, const std::string& run_folder, TrajectoryWriter writer, int64_t last_step);

    FileSystem& files_;
    std::string state_path_;
    TrajectoryWriter writer_;
    int64_t last_step_;
};

}  // namespace windlass
