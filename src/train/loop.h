// loop.h: the steps of a run: train, commit, tell its listeners; and the end.
//
// A step counts once it is durable, which may be within the next one; its metrics line is written after that.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "train/evaluator.h"
#include "train/listener.h"
#include "train/train.h"

namespace windlass {

class TrainLoop {
  public:
    // The engine holds the state that `state` describes. `trajectory` keeps every step and ends with that state's;
    // null: the run has none. Everything outlives the loop.
    TrainLoop(FileSystem& files, const Session& session, References references, RunFolder& folder, Engine& engine,
              RunControl& control, EventStream& events, RunState state, TrajectoryLog* trajectory);

    // One more who is told, after all others. It outlives the loop.
    void add(StepListener& listener) { listeners_.push_back(&listener); }
    // To the last step, or until the control stops it. Throws UserError(diverged).
    TrainResult run();
    // What it came to.
    const RunState& state() const { return now_.state; }

  private:
    template <typename Body>
    void tell(Body body) {
        for (StepListener* const each : listeners_) body(*each);
    }
    void step();
    void run_phase();
    StepMetrics measure(const StepDone& done, double seconds) const;
    void advance(const StepDone& done, const DataPosition& position);
    void tell_step(const StepDone& done, double seconds);
    bool ends_early() const;
    std::string say_how_to_continue(int64_t done) const;
    void stop();
    void finish();
    const Schedule& schedule_of(int64_t sequence_length) const;

    LoopState now_;
    std::map<int64_t, double> predicted_;  // seconds of a step, by row length
    double mean_seconds_ = 0;              // of the last steps
    double loss_ = 0;
    Saver saver_;
    BestKeeper best_;
    StepEvaluator evaluator_;
    Listeners others_;
    std::vector<StepListener*> listeners_;  // all of them, in the order in which they are told
};

}  // namespace windlass
