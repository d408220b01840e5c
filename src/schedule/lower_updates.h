// lower_updates.h: the update as a stream of chunk groups: read what is not in memory, update, write back; and copy up
// what stays on a device that did not update it.
//
// A group is up to Plan::group_chunks times kChunkElements of neighbours in the store. While one is updated the state
// of the next Plan::update_ahead groups is under way.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "schedule/builder.h"

namespace windlass {

class UpdateStream {
  public:
    // Where, while the stream runs, memory holds a parameter's weights as a whole, or a chunk's gradient; kNoBuffer:
    // nowhere, and a group brings its own.
    struct Sources {
        std::function<BufferSlice(int param)> weights;
        std::function<BufferSlice(int param, int64_t first)> gradient;
        bool speculative = false;  // before the norm is known
        bool again = false;  // memory holds what a wrong guess made of it: take the version before, which is in the
                             // store, or kept in memory
        // What becomes of a group instead of an update; it has no gradients.
        std::function<void(const ParamTask& group)> use = {};
    };

    UpdateStream(ScheduleBuilder& builder, Sources sources);

    // Begins the group's reads; finishes earlier groups when more than update_ahead are under way.
    void add(ChunkGroup group);
    void drain();
    // Finishes the groups of this block, and those before them.
    void drain_block(int block);

  private:
    struct Staged {
        ChunkGroup chunks;
        std::vector<BufferSlice> weights, gradient;  // by chunk
        std::vector<BufferSlice> blocks;             // by chunk: its state as the store has it; empty without a store
        std::vector<ParamChunk> visiting;  // the chunks on a device that their state goes up to; empty: it does not
    };

    void stage_weights(Staged& staged);
    void stage_state(Staged& staged);
    void stage_gradient(Staged& staged);
    // A group that the device updates though its state is at home next to it (lower_visiting.cpp).
    bool visits(const ChunkGroup& chunks) const;
    void stage_visit(Staged& staged);
    void finish_visit(const Staged& staged, ParamTask at_home);
    void bring_gradient_down(ParamTask& task);
    void finish(const Staged& staged);
    void update(ParamTask task);
    // A kernel that keeps what a guess overwrites, or takes it back, on chunks that are about to be updated.
    void version(const ParamKernel& kernel, const ParamTask& task, LaneKind lane);
    ParamChunk update_chunk(const Staged& staged, size_t index) const;
    std::vector<MoveTask> ways_up(const ParamTask& task) const;  // from the updated weights to where runs read them
    void write_back(const Staged& staged);
    LaneKind lane_of(int param) const;
    // The block that a group is at home in.
    int home_of(const ChunkGroup& chunks) const { return in_.param(chunks[0].param).spec.block; }
    // A buffer for these pieces of the group, and the read that fills it; where each chunk's begins.
    std::vector<BufferSlice> read(const ChunkGroup& chunks, DiskPlace place, MemoryTag tag);
    // A read of these pieces to where they belong in memory.
    void read_into(const ChunkGroup& chunks, DiskPlace place, const std::vector<BufferSlice>& targets);
    void move_pieces(const ChunkGroup& chunks, MoveKind kind, DiskPlace place, const std::vector<BufferSlice>& slices);

    ScheduleBuilder& builder_;
    const LowerInput& in_;
    Sources sources_;
    std::deque<Staged> staged_;
};

}  // namespace windlass
