// trace.h: a step as a picture: Chrome's trace format (chrome://tracing, ui.perfetto.dev), one row for each lane.
//
// A step that was predicted and one that was executed look the same; both are spans of a schedule's tasks.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/spec.h"
#include "schedule/schedule.h"

namespace windlass {

// "forward layers.3 micro 1", "read state layers.2", "update layers.2".
std::string task_name(const ModelSpec& model, const ScheduleSet& set, const Schedule& schedule, const Task& task);

// A task that took time, as a picture shows it.
struct TraceTask {
    int lane = 0;
    double start_s = 0, seconds = 0;
    std::string name;
};
// The longest ones, at most `count`, in the order of the schedule. `spans` are parallel to its tasks.
std::vector<TraceTask> longest_tasks(const ModelSpec& model, const ScheduleSet& set, const Schedule& schedule,
                                     std::span<const TaskSpan> spans, size_t count);

// Collects steps; each is a process of its own in the viewer, beginning at zero, so that steps can be held side by
// side.
class Trace {
  public:
    // `spans` are parallel to the schedule's tasks. Tasks that took no time leave no mark.
    void add(std::string_view title, const ModelSpec& model, const ScheduleSet& set, const Schedule& schedule,
             std::span<const TaskSpan> spans);
    // The whole file.
    std::string json() const;

  private:
    void add_event(std::string event);
    void add_lanes(std::string_view title, const Schedule& schedule);

    std::string events_;  // separated by commas
    int steps_ = 0;
};

}  // namespace windlass
