// run_control.h: how a run is asked to stop or to save, from any thread: by signals (signals.h), or by a program that
// holds the run in itself.
#pragma once

#include <mutex>

#include "base/error.h"
#include "run/engine.h"

namespace windlass {

class RunControl {
  public:
    // Ends the run after this step. `code`: how it ends then, ExitCode::interrupted or terminated; of several requests
    // the last one's. Returns whether this was the first; false too where no run has begun.
    bool stop_after_step(ExitCode code);
    // Ends it within the step, which is not applied.
    void stop_now();
    // Asks for a checkpoint; kept for a run that has not begun.
    void save();
    // Whether there is a run to stop.
    bool is_running() const;

    // The run's side.
    bool wants_stop() const;
    bool take_save_request();
    ExitCode exit_code() const;

  private:
    friend class ControlledRun;

    // Holding it keeps the engine alive while it is touched.
    mutable std::mutex mutex_;
    Engine* engine_ = nullptr;
    bool wants_stop_ = false, wants_save_ = false;
    ExitCode code_ = ExitCode::terminated;
};

// An engine's run, which the control reaches as long as this lives. One at a time.
class ControlledRun {
  public:
    ControlledRun(RunControl& control, Engine& engine);
    ~ControlledRun();
    ControlledRun(const ControlledRun&) = delete;
    ControlledRun& operator=(const ControlledRun&) = delete;

  private:
    RunControl& control_;
};

}  // namespace windlass
