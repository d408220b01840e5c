// trace_writer.h: steps of a run as a trace (schedule/trace.h): the first and the last, or those that are asked for.
//
// Between steps it keeps the times of one step, in memory that is used again; the file is written again after each step
// that it shows, so that a run that is killed leaves those it had.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "run/engine.h"
#include "schedule/trace.h"
#include "train/listener.h"

namespace windlass {

struct TraceRequest {
    std::string path;            // empty: no trace
    std::vector<int64_t> steps;  // counted from 1; empty: the first of this process, and the last
};

class TraceWriter : public StepListener {
  public:
    TraceWriter(FileSystem& files, TraceRequest request);

    // The engine's setup and the schedule outlive the writer.
    void committed(const StepDone& step) override { note(step.number, step.setup, step.schedule, step.report); }
    void note(int64_t step, const EngineSetup& setup, const Schedule& schedule, const StepReport& report);
    // After the last one.
    void finish();

  private:
    struct Latest {
        int64_t step = 0;
        const EngineSetup* setup = nullptr;
        const Schedule* schedule = nullptr;
        std::vector<TaskSpan> spans;
    };
    void add_latest();

    FileSystem& files_;
    TraceRequest request_;
    Trace trace_;
    Latest latest_;
    int64_t shown_ = 0;  // the last step that the trace has
};

}  // namespace windlass
