// loop.h: the steps of a run: train, commit, evaluate, log, save.
//
// A step counts once it is durable, which may be within the next one; its metrics line is written after that.
// Evaluation, checkpoints, exports and the end need a whole state, so they settle first. Saving never loses the run: a
// full disk is a warning, and the next save tries again.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "infer/evaluate.h"
#include "persist/exporter.h"
#include "persist/run_folder.h"
#include "persist/trajectory_log.h"
#include "run/engine.h"
#include "session/session.h"
#include "session/signals.h"
#include "state/metrics.h"
#include "train/sample_log.h"
#include "train/step_log.h"
#include "train/trace_writer.h"
#include "train/train.h"

namespace windlass {

// Whether this step is one of every n; null: never.
inline bool is_due(const std::optional<int64_t>& every, int64_t step) {
    return every && step % *every == 0;
}

class TrainLoop {
  public:
    // The engine holds the state that `state` describes. Everything outlives the loop.
    TrainLoop(FileSystem& files, Session& session, RunFolder& folder, Engine& engine, RunState state);

    // To the last step, or until a signal. Throws UserError(diverged).
    TrainResult run();
    // What it came to.
    const RunState& state() const { return state_; }
    // Shows it every step; it outlives the loop.
    void set_trace(TraceWriter* trace) { trace_ = trace; }
    // Keeps every step in it; it outlives the loop, and ends with the state's step.
    void set_trajectory(TrajectoryLog* trajectory) { trajectory_ = trajectory; }

  private:
    void step();
    void refresh();
    StepMetrics measure(const StepBatch& batch, const Schedule& schedule, const StepReport& report,
                        double seconds) const;
    void advance(const StepBatch& batch, const DataPosition& position, const StepReport& report);
    void finish_step(const StepBatch& batch, const Schedule& schedule, const StepReport& report, double seconds);
    int64_t durable_step() const;
    void settle();
    void stop();
    std::string say_how_to_continue(int64_t done) const;
    void doubt_machine(StepMetrics& metrics);
    void watch(const StepBatch& batch, const StepReport& report);
    [[noreturn]] void stop_without_state(const StepBatch& batch, const StepReport& report);
    void record_bad_batch(const StepBatch& batch, const StepReport& report) const;
    void evaluate(StepMetrics& metrics);
    void evaluate_preferences(StepMetrics& metrics);
    bool evaluates_now() const;
    void make_up_evaluation();
    void take_in(const StepMetrics& metrics);
    void keep_best();
    bool samples_now() const;
    void sample();
    void make_up_samples();
    bool stops_early() const;
    void tell_early_stop() const;
    bool saves_now();
    bool save();
    void finish();
    const Schedule& schedule_of(int64_t sequence_length) const;

    FileSystem& files_;
    Session& session_;
    RunFolder& folder_;
    Engine& engine_;
    RunState state_;
    SignalScope signals_;
    StepLog log_;
    Exporter exporter_;
    std::map<int64_t, double> predicted_;  // seconds of a step, by row length
    double mean_seconds_ = 0;              // of the last steps
    double loss_ = 0;
    double eval_loss_;
    std::optional<double> eval_score_;  // of a task
    int64_t first_step_;                // that this process found done
    int64_t saved_step_ = -1;
    std::optional<SampleLog> samples_;
    bool is_new_best_ = false;  // the last evaluated step; it is not saved yet
    BestStep best_before_;      // it
    bool doubted_ = false;      // the machine's kept rates
    bool follows_ = false;      // a step that left its update to the next, as plans take it
    TraceWriter* trace_ = nullptr;
    TrajectoryLog* trajectory_ = nullptr;
};

}  // namespace windlass
