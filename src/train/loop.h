// loop.h: the steps of a run: train, commit, evaluate, log, save.
//
// A step counts once its commit is durable; its metrics line is written after that. Saving never loses the run: a disk
// that is full is a warning, and the next save tries again.
#pragma once

#include <map>
#include <string>

#include "run/engine.h"
#include "train/evaluate.h"
#include "train/metrics.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/session.h"
#include "train/signals.h"
#include "train/train.h"

namespace windlass {

class TrainLoop {
  public:
    // The engine holds the state that `state` describes. Everything outlives the loop.
    TrainLoop(FileSystem& files, Session& session, RunFolder& folder, Engine& engine, RunState state);

    // To the last step, or until a signal. Throws UserError(diverged).
    TrainResult run();

  private:
    void step();
    StepBatch next_batch(DataPosition& position);
    StepMetrics measure(const StepBatch& batch, const Schedule& schedule, const StepReport& report,
                        double seconds) const;
    void finish_step(const StepBatch& batch, const Schedule& schedule, const StepReport& report, double seconds);
    void doubt_machine(const StepMetrics& metrics);
    void watch(const StepBatch& batch, const StepReport& report, double loss);
    void record_bad_batch(const StepBatch& batch, const StepReport& report) const;
    void evaluate(StepMetrics& metrics);
    bool evaluates_now() const;
    bool saves_now();
    void save();
    void finish();
    const Schedule& schedule_of(int64_t row_length) const;

    FileSystem& files_;
    Session& session_;
    RunFolder& folder_;
    Engine& engine_;
    RunState state_;
    SignalScope signals_;
    Progress progress_;
    MetricsWriter metrics_;
    std::map<int64_t, double> predicted_;  // seconds of a step, by row length
    double mean_seconds_ = 0;              // of the last steps
    double loss_ = 0;
    double eval_loss_;
    int64_t saved_step_ = -1;
    bool diverged_ = false;
    bool doubted_ = false;  // the machine's kept rates
};

}  // namespace windlass
