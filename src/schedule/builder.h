// builder.h: writes one schedule down, task by task: what all lowerings have in common.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/index.h"
#include "model/pass.h"
#include "schedule/layout.h"
#include "schedule/lower.h"

namespace windlass {

// f32 joins both halves of a split master.
inline bool joins_halves(const Param& param, const Numerics& numerics) {
    return numerics.compute == DType::f32 && param.storage.store == StoreType::split;
}

// The sizes that the runs of a schedule compute with.
OpSize op_size(const TrainedModel& model, const Numerics& numerics, const Plan& plan, const ScheduleRequest& request);

// What a lowering reads.
struct LowerInput {
    const TrainedModel& model;
    const Recipe& recipe;
    const Numerics& numerics;
    const Plan& plan;
    const PersistentIds& ids;
    int persistent_count = 0;
    std::vector<TierId> tiers = tiers_beside(plan.device.index);
    std::vector<uint8_t> differentiated = {};  // of a phase: by parameter, whether its kernel takes the gradient
    bool joins_chunks = false;  // of a schedule that is weighed and never run: neighbouring chunks are one

    // Lists the chunks, once the rest is known. Joined where no chunk differs from the next.
    void list_chunks();
    // Of a parameter; and those that a block's update takes as one.
    std::span<const ChunkSpan> chunks(int param) const {
        const int first = first_chunk[at(param)], end = first_chunk[at(param) + 1];
        return std::span(all_chunks).subspan(at(first), at(end - first));
    }
    std::vector<ChunkGroup> groups(int block) const;
    // Forward-only: these are not where the parameter lives, so what an update makes of them is gone after the step
    // unless it is written back.
    bool is_fetched(int param, const BufferSlice& weights) const {
        return place(param).weights.buffer != weights.buffer;
    }
    // The kernels need a converted copy: the stored type is not the one they compute with, or updates that were not
    // merged are added.
    bool converts(int index) const {
        const Param each = param(index);
        return each.storage.store == StoreType::as_file && (each.storage.dtype != numerics.compute || each.keeps_sum());
    }
    // By the passes of this schedule: for trained weights, or, in a phase, for those that its kernel takes.
    bool wants_gradient(int index) const {
        return differentiated.empty() ? param(index).trains() : differentiated[static_cast<size_t>(index)] != 0;
    }
    // Updates change what is kept.
    bool is_stored_to(int index) const { return param(index).trains() && param(index).perturb.merge != Merge::never; }
    bool needs_low(int index) const { return joins_halves(param(index), numerics); }
    Param param(int index) const { return model.param(index); }
    const ParamPlace& place(int param) const { return ids.params[static_cast<size_t>(param)]; }
    // Chunks may be on two sides (ParamPlace::visits). For the chunk that begins with this element: where it lies
    // after `base`, which those of its side begin at.
    BufferSlice gradient_behind(const BufferSlice& base, int param, int64_t first) const;
    // Where a chunk's gradient is between the step that finds it and the update; kNoBuffer: not in memory.
    BufferSlice held_gradient(int param, int64_t first) const;
    bool visits(int param, int64_t first) const;
    // The plan of the block that a parameter is at home in.
    const BlockPlan& plan_of(int index) const { return plan.of(param(index).spec.block); }
    // Where what leaves the device goes, and what comes from the disk comes.
    TierKind host_tier() const { return plan.own_memory() ? TierKind::host : TierKind::device; }

    // Filled by list_chunks.
    std::vector<ChunkSpan> all_chunks;
    std::vector<int> first_chunk;  // by parameter, and where the last one's end
};

// A block's weights on their way to where runs read them.
struct BlockWeights {
    std::vector<WeightUse> read;       // by the program's weights: where runs read them
    std::vector<BufferUse> uses;       // of such a run
    std::vector<BufferSlice> host_hi;  // by the program's weights: in the memory of the host, before they go up
    std::vector<BufferSlice> host_lo;  // kNoBuffer where runs read none
};

// What the runs of one pass read of a block.
struct MaterializedWeights {
    std::vector<BlockWeights> points;     // forward: what each point's runs read; tangent: one, the weights themselves
    std::vector<BufferSlice> directions;  // tangent: by the program's weights
};

// One pass of all micro-batches through one block.
struct Visit {
    int block = 0;
    bool backward = false;
    bool updates = true;  // backward: else it only finds the norm, and another one follows
};

class ScheduleBuilder {
  public:
    ScheduleBuilder(const LowerInput& input, const ScheduleRequest& request);

    const LowerInput& in() const { return in_; }
    Schedule& schedule() { return schedule_; }
    const Block& block(int index) const;

    // Fields of BufferSpec.
    struct BufferName {
        std::string_view what;
        int block = -1;
        int micro = -1;
        BufferName(std::string_view what_in, int block_in = -1, int micro_in = -1)
            : what(what_in), block(block_in), micro(micro_in) {}
        BufferName(const char* what_in) : what(what_in) {}
    };
    BufferId buffer(const BufferName& name, MemoryTag tag, int64_t bytes, TierKind tier);
    int index_of(const Block& block) const;  // in ModelSpec::blocks; -1: ModelSpec::logits
    // What it will give next.
    BufferId next_buffer() const { return in_.persistent_count + static_cast<int>(schedule_.buffers.size()); }
    // The segment of a block for one direction; made once for equal programs that keep the same for backward.
    struct SegmentKey {
        const Program* program = nullptr;
        bool backward = false;
        bool save = false;               // everything, unless `saved` says what
        bool one_token = false;          // of one row, whatever the schedule's size
        bool passes_gradient_on = true;  // backward: some block before this one needs it
        int tangents = 0;                // forward with this number of them
        int64_t rank = 0;                // of the factors that matrices' directions come as; 0: in full
        std::vector<SaveChoice> saved;
        auto operator<=>(const SegmentKey&) const = default;
    };
    int segment(const Block& block, SegmentKey key);
    int forward_segment(const Block& block) { return segment(block, {}); }
    const Segment& segment_at(int index) const { return schedule_.segments[static_cast<size_t>(index)]; }

    // Brings a block's weights into the host's memory: a read of those whose home is the disk.
    BlockWeights read_weights(const Block& block);
    // Brings them to where runs read them: a copy up where the device has its own memory, into `slot` where one is
    // given that has room for all of it.
    void upload(const Block& block, BlockWeights& weights, BufferId slot = kNoBuffer);
    // Bytes of its weights that go up.
    int64_t upload_bytes(const Block& block) const;

    // The block's weights are on the device: updates those whose home it is if `updates`, and makes what this pass of
    // the recipe reads; -1: nothing is probed, and nothing read.
    struct Materialization {
        int block = 0;
        int pass = -1;
        int point = -1;  // of a forward pass the only point that is made; -1: all of them
        bool updates = false;
    };
    MaterializedWeights materialize(const Materialization& wanted, const BlockWeights& weights);
    // Bytes of one of the copies, or directions, that a parameter has in a pass.
    int64_t copy_bytes(int pass, int param) const;
    // Weights that are kept in another type than runs read are copied as that; the others are read where they are.
    void convert(int block, BlockWeights& weights);

    // What is added from here on is at this block, in a pass over them.
    void arrive(int block) { schedule_.arrivals.push_back({block, static_cast<int>(schedule_.tasks.size())}); }
    // Adds the task; its workspace is made here. `uses` names buffers besides weights and regions.
    void run(RunTask task, const BlockWeights& weights, std::vector<BufferUse> uses);
    void move(MoveTask task);
    // Its workspace is made here, too. `beyond`: what it takes besides the traffic that follows from its kernel.
    void param(ParamTask task, LaneKind lane = LaneKind::compute, const Demand& beyond = {});
    void decide(Stage stage);
    void mark();
    // Of tasks that are added from now on.
    void set_when(When when) { when_ = when; }

    Schedule finish() { return std::move(schedule_); }

  private:
    BufferSlice tokens_of(int point, int micro);
    struct Added {
        Verb verb;
        LaneKind lane;
        size_t payload;
        int block = -1;
    };
    void add(const Added& added, std::span<const BufferUse> uses, const Demand& demand);
    // Empty; what it held before is gone. Kept from task to task, like `scattered_`.
    std::vector<BufferUse>& no_uses() {
        uses_.clear();
        return uses_;
    }
    void add_materialization(ParamTask task);
    int64_t slot_bytes(const ParamTask& task, const ParamChunk& chunk, ParamSlot slot) const;
    void bind_chunk(const ParamTask& task, const ParamChunk& chunk);
    void make_work(ParamTask& task, LaneKind lane);
    int64_t traffic(const ParamTask& task) const;
    void decide_updates(ParamChunk& each, bool is_first, bool fetched) const;
    double mean_updates(const Param& param, const ParamChunk& each) const;
    void read_halves(const Block& block, DiskPlace place, std::vector<BufferSlice>& slices);
    bool stays_on_device(int param) const;
    bool needs_low(const Block& block) const;
    void upload_halves(const Block& block, const std::vector<BufferSlice>& from, std::vector<BufferSlice>& to,
                       bool is_low, BufferId slot);

    const LowerInput& in_;
    Schedule schedule_;
    When when_ = When::always;
    std::vector<BufferUse> uses_;       // of the task that is being added
    std::vector<BufferUse> scattered_;  // the same of a param task, before they are in order
    std::map<SegmentKey, int> segment_index_;
    std::map<std::pair<int, int>, BufferSlice> tokens_;  // by point and micro-batch
};

inline BufferSlice behind(const BufferSlice& slice, int64_t bytes) {
    return {slice.buffer, slice.offset + bytes};
}

// Uses of neighbouring bytes become one.
void add_use(std::vector<BufferUse>& uses, const BufferUse& use);

// Of ParamTask::wide.
int64_t wide_bytes(const ParamTask& task);
// The bytes that a piece of this place takes in memory, whole blocks of the disk.
int64_t piece_bytes(const LowerInput& in, DiskPlace place, const ChunkSpan& chunk);

// Lowered steps (lower_train.cpp, lower_probe.cpp, lower_forward.cpp, lower_phase.cpp, lower_updates.cpp).
Schedule lower_train(const LowerInput& input, const ScheduleRequest& request);
Schedule lower_probe(const LowerInput& input, const ScheduleRequest& request);
Schedule lower_eval(const LowerInput& input, const ScheduleRequest& request);
Schedule lower_decode(const LowerInput& input, const ScheduleRequest& request);
Schedule lower_phase(const LowerInput& input, const ScheduleRequest& request);
// Speculative updates that are done again; deferred updates that are needed now.
Schedule lower_redo(const LowerInput& input);
Schedule lower_flush(const LowerInput& input);

}  // namespace windlass
