#include "train/trace_writer.h"

#include <algorithm>
#include <limits>

namespace windlass {
namespace {

// Seconds since the first task began, into memory that is there already.
void fill_spans(const StepReport& report, std::vector<TaskSpan>& spans) {
    int64_t begin = std::numeric_limits<int64_t>::max();
    for (const TaskTime& time : report.tasks) {
        if (time.end_ns > time.start_ns) begin = std::min(begin, time.start_ns);
    }
    const auto seconds = [begin](int64_t ns) { return static_cast<double>(ns - begin) * 1e-9; };
    spans.clear();
    for (const TaskTime& time : report.tasks) {
        const bool ran = time.end_ns > time.start_ns;
        spans.push_back(ran ? TaskSpan{seconds(time.start_ns), seconds(time.end_ns)} : TaskSpan{});
    }
}

}  // namespace

TraceWriter::TraceWriter(FileSystem& files, TraceRequest request) : files_(files), request_(std::move(request)) {}

void TraceWriter::note(int64_t step, const EngineSetup& setup, const Schedule& schedule, const StepReport& report) {
    const std::vector<int64_t>& steps = request_.steps;
    const bool asked = std::find(steps.begin(), steps.end(), step) != steps.end();
    if (!steps.empty() && !asked) return;
    latest_.step = step;
    latest_.setup = &setup;
    latest_.schedule = &schedule;
    fill_spans(report, latest_.spans);
    if (asked || shown_ == 0) add_latest();
}

void TraceWriter::finish() {
    if (latest_.step != shown_) add_latest();
}

void TraceWriter::add_latest() {
    const EngineSetup& setup = *latest_.setup;
    trace_.add(fmt::format("step {}, {}", latest_.step, latest_.schedule->name), setup.model, setup.schedules,
               *latest_.schedule, latest_.spans);
    write_text_atomic(files_, request_.path, trace_.json());
    shown_ = latest_.step;
}

}  // namespace windlass
