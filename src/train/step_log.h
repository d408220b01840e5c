// step_log.h: what a run says of its steps: metrics.jsonl, TensorBoard, the log and the bar.
//
// A step is spoken of once it is durable: a plan may hold a step's update for the next one, and a step that a kill
// takes back must have left no line.
#pragma once

#include <deque>
#include <string>

#include "base/event_stream.h"
#include "base/file.h"
#include "session/session.h"
#include "state/metrics.h"
#include "state/run_state.h"
#include "train/progress.h"

namespace windlass {

class StepLog {
  public:
    // Continues after the line of the step that `state` describes, which it makes up for where a kill took it. Where
    // each step is durable its line is as well; else the lines are when a checkpoint is (sync).
    StepLog(FileSystem& files, const Session& session, const std::string& run_folder, const RunProgress& now,
            bool is_each_durable, EventStream& events);

    // A step that is done. What is returned may be changed until the step is written.
    StepMetrics& add(StepMetrics metrics, std::string bottleneck_text);
    // An evaluation that a kill took from the step that the run resumes after.
    void make_up(const StepMetrics& evaluation);
    bool lacks_evaluation(int64_t step) const { return metrics_.lacks_evaluation(step); }
    // Writes the steps up to this one. Those for which a full disk has no room are written when it has.
    void write_until(int64_t durable_step);
    // All lines so far are on stable storage when it returns.
    void sync() { metrics_.sync(); }
    // Takes the bar away, before other output to the terminal.
    void clear_bar() { progress_.clear(); }

  private:
    struct Note {
        StepMetrics metrics;
        std::string bottleneck_text;
        bool is_told = false;  // on the terminal and in log.txt
    };
    void tell(const Note& note);
    // False where the disk is full.
    bool write(const StepMetrics& metrics);
    void tell_evaluation(const StepMetrics& metrics);

    const Session& session_;
    Progress progress_;
    MetricsWriter metrics_;
    bool is_each_durable_;
    EventStream& events_;
    std::deque<Note> notes_;  // of steps that are not durable yet, or wait for room on the disk
    bool is_full_ = false;
};

}  // namespace windlass
