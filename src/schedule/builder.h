// builder.h: writes one schedule down, task by task: what train, eval and decode lowering have in common.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/sweep.h"
#include "schedule/layout.h"
#include "schedule/lower.h"

namespace windlass {

// What a lowering reads.
struct LowerInput {
    const ModelSpec& model;
    const Recipe& recipe;
    const Numerics& numerics;
    const Plan& plan;
    const PersistentIds& ids;
    int persistent_count = 0;
    // f32 joins both halves of a split master.
    bool needs_low() const { return numerics.compute == DType::f32 && recipe.store == StoreType::split; }
};

// A block's weights where a run can read them.
struct BlockWeights {
    std::vector<BufferSlice> hi, lo;
    std::vector<BufferId> buffers;
};

// One pass of all micro-batches through one block.
struct Visit {
    int block = 0;
    bool reverse = false;
};

class ScheduleBuilder {
  public:
    ScheduleBuilder(const LowerInput& input, const ScheduleRequest& request);

    const LowerInput& in() const { return in_; }
    Schedule& schedule() { return schedule_; }
    const Block& block(int index) const;

    BufferId buffer(std::string name, Owner owner, int64_t bytes);
    // The segment of a program for one direction; made once per program and direction.
    enum class SegmentKind : uint8_t { forward, forward_save, reverse, reverse_recompute };
    int segment(const Block& block, SegmentKind kind);
    const Segment& segment_at(int index) const { return schedule_.segments[static_cast<size_t>(index)]; }

    // Weights of a block: slices of the persistent buffers, or a buffer of its own and the moves that fill it.
    BlockWeights fetch(const Block& block);

    // Adds the task; its workspace is made here. `extra` names buffers beside weights and regions.
    void run(RunTask task, const BlockWeights& weights, std::vector<BufferUse> uses);
    void move(MoveTask task);
    void update(UpdateTask task);
    void reduce(ReduceTask task);

    Schedule finish() { return std::move(schedule_); }

  private:
    void add(Verb verb, LaneKind lane, size_t payload, std::vector<BufferUse> uses, Demand demand);

    const LowerInput& in_;
    Schedule schedule_;
    std::map<std::pair<const Program*, SegmentKind>, int> segment_index_;
};

// Lowered steps (lower_train.cpp, lower_forward.cpp).
Schedule lower_train(const LowerInput& input, const ScheduleRequest& request);
Schedule lower_eval(const LowerInput& input, const ScheduleRequest& request);
Schedule lower_decode(const LowerInput& input, const ScheduleRequest& request);

}  // namespace windlass
