// listener.h: who is told of a run's steps: evaluation, saving, samples, exports, doubts, traces. The loop trains and
// commits; everything else that happens at a step is a listener, in a file of its own, and a line in listeners.h.
//
// A step counts once it is durable, which may be within the next one; what listeners need of a whole state they settle
// first (LoopState::settle).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/event_stream.h"
#include "data/batch.h"
#include "persist/run_folder.h"
#include "persist/trajectory_log.h"
#include "run/engine.h"
#include "session/run_control.h"
#include "session/session.h"
#include "state/run_state.h"
#include "train/step_log.h"

namespace windlass {

// Whether this step is one of every n; null: never.
inline bool is_due(const std::optional<int64_t>& every, int64_t step) {
    return every && step % *every == 0;
}

// What a loop works on, and where it has come to. Listeners read it; `state` is written by the loop, and its best step
// by who compares steps.
struct LoopState {
    FileSystem& files;
    const Session& session;
    const References references;
    RunFolder& folder;
    Engine& engine;
    RunState state;
    RunControl& control;
    EventStream& events;
    ControlledRun running;
    StepLog log;
    TrajectoryLog* trajectory = nullptr;  // keeps every step, where the run has one
    int64_t first_step = 0;               // that this process found done
    int64_t settled_step = -1;            // the last one after which everything was made durable

    RunProgress& progress() { return state.progress; }
    bool is_last() const { return state.progress.step == session.total_steps(); }
    // A step that a log holds is durable, even where its update is not done yet.
    int64_t durable_step() const { return trajectory != nullptr ? trajectory->last_step() : engine.durable_step(); }
    // Everything that was done is durable, and said.
    void settle();
};

// One step as it was done. `state` tells of it already.
struct StepDone {
    int64_t number;
    const EngineSetup& setup;
    const StepBatch& batch;
    const Schedule& schedule;
    const StepReport& report;

    double loss() const { return report.loss_sum / static_cast<double>(batch.loss_count()); }
};

// In the order of a step. `state` outlives the listener.
class StepListener {
  public:
    virtual ~StepListener() = default;
    // Before the first step of this process: what a kill took from the step before is made up for.
    virtual void begin() {}
    virtual void before_step() {}
    virtual void committed(const StepDone& /*step*/) {}
    // Before its line is told.
    virtual void measured(StepMetrics& /*metrics*/) {}
    // The terminal has its line; more may be added until it is written.
    virtual void told(StepMetrics& /*metrics*/) {}
    virtual void done(const StepDone& /*step*/) {}
    // The run ends here, though not at its last step.
    virtual bool ends_run() const { return false; }
    // After the last step of this process; everything is settled.
    virtual void end() {}
};
using Listeners = std::vector<std::unique_ptr<StepListener>>;

}  // namespace windlass
