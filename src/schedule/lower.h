// lower.h: (TrainedModel, Recipe, Numerics, Plan) -> ScheduleSet. A pure function: it allocates nothing and moves
// nothing.
#pragma once

#include <string>
#include <vector>

#include "method/recipe.h"
#include "schedule/schedule.h"

namespace windlass {

struct Phase;

struct ScheduleRequest {
    // phase: by the gradients of the first half of the micro-batches, judged by those of the second. redo, flush:
    // updates alone; lower adds them where the plan needs them.
    enum class Kind : uint8_t { train, eval, decode, phase, redo, flush } kind = Kind::train;
    int64_t rows = 1;
    int64_t sequence_length = 1;
    int micro_batches = 1;
    int64_t cache_capacity = 0;  // decode: tokens per row that the cache holds
    const Phase* phase = nullptr;
    int iterations = 0;           // phase: of learning, at most
    bool writes_answers = false;  // of a forward-only step: each point reads rows of its own
};

// Lowers all schedules of a run together, since they share the persistent buffers.
ScheduleSet lower(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Plan& plan,
                  const std::vector<ScheduleRequest>& requests);

// One of these schedules alone, with the persistent buffers of all of them, to be weighed and never run: for callers
// that compare many plans that have some schedules in common. Neighbouring chunks are one span, and cost the
// same. `wanted`: one of the requests, or redo or flush if the plan needs that.
ScheduleSet lower_one(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Plan& plan,
                      const std::vector<ScheduleRequest>& requests, const ScheduleRequest& wanted);

// Bytes by kind of tier that outlive each schedule of such a set: what a plan takes at least.
std::array<int64_t, kTierKinds> persistent_bytes(const TrainedModel& model, const Recipe& recipe,
                                                 const Numerics& numerics, const Plan& plan,
                                                 const std::vector<ScheduleRequest>& requests);
// All of a plan that they depend on.
std::string persistent_key(const Plan& plan);

// The updates alone that a plan needs schedules for, besides those of the requests: redo, flush, both or none.
std::vector<ScheduleRequest> update_requests(const Recipe& recipe, const Plan& plan,
                                             const std::vector<ScheduleRequest>& requests);

// Columns of the keys that a block's attention caches, 0 for a block without one.
int64_t cache_columns(const Block& block);

// The name that lower gives: "train/512".
std::string schedule_name(const ScheduleRequest& request);

}  // namespace windlass
