// run_events.h: the events that a run tells a program that follows it. Their fields are in docs/guide/json.md.
#pragma once

#include "base/event_stream.h"

namespace windlass {

inline constexpr EventKind kRunEvent{.name = "run"};
inline constexpr EventKind kPlanEvent{.name = "plan"};
// As the line in metrics.jsonl, and once that is written: a step that is told of is kept.
inline constexpr EventKind kStepEvent{.name = "step", .may_be_dropped = true, .is_kept = false};
inline constexpr EventKind kEvaluationEvent{.name = "evaluation"};
inline constexpr EventKind kSampleEvent{.name = "sample", .is_kept = false};  // samples.jsonl has them
inline constexpr EventKind kCheckpointEvent{.name = "checkpoint"};

}  // namespace windlass
