// Groups of chunks whose state goes to the device to be updated there, and comes back (Plan::device_groups; Deep
// Optimizer States, arXiv:2410.21316). Their gradients never leave the device, and their weights are there already.
#include "base/index.h"
#include "schedule/copies.h"
#include "schedule/kept_version.h"
#include "schedule/lower_updates.h"

namespace windlass {
bool UpdateStream::visits(const ChunkGroup& chunks) const {
    return !sources_.again && !sources_.use && in_.visits(chunks[0].param, chunks[0].first);
}

// Low halves that runs join are there already, and are updated in place as the weights are.
void UpdateStream::stage_visit(Staged& staged) {
    int64_t end = 0;
    Copies up(MoveKind::up, DiskPlace::state);
    const BufferId made = builder_.next_buffer();
    const auto bring = [&](const ParamChunk& of, const BufferSlice& from, int64_t bytes) {
        const BufferSlice to{made, end};
        up.add(of.param, from, to, bytes, of.count);
        end += round_up(bytes, kParamAlignment);
        return to;
    };
    for (size_t index = 0; index < staged.chunks.size(); ++index) {
        ParamChunk chunk = update_chunk(staged, index);
        const ParamPlace& place = in_.place(chunk.param);
        chunk.weights = behind(place.resident, weight_bytes(in_.param(chunk.param), chunk.first));
        chunk.low = place.resident_low.buffer != kNoBuffer ? behind(place.resident_low, chunk.first * 2)
                                                           : bring(chunk, chunk.low, chunk.count * 2);
        for (size_t s = 0; s < chunk.state.size(); ++s)
            chunk.state[s] =
                bring(chunk, chunk.state[s],
                      state_bytes(in_.recipe.state[s], in_.param(chunk.param).spec, chunk.first, chunk.count));
        // The host keeps what a guess overwrites, from its own copy (finish_visit).
        chunk.kept = {};
        staged.visiting.push_back(std::move(chunk));
    }
    builder_.buffer({"visiting", home_of(staged.chunks)}, MemoryTag::state, end, TierKind::device);
    up.move(builder_);
}

// A speculative update overwrites, on the way down, what the host keeps a copy of first.
void UpdateStream::finish_visit(const Staged& staged, ParamTask at_home) {
    if (sources_.speculative) version(kKeepVersion, at_home, LaneKind::host);
    ParamTask task = at_home;
    task.chunks = staged.visiting;
    builder_.param(task, LaneKind::compute);
    Copies down(MoveKind::down, DiskPlace::state);
    for (size_t index = 0; index < task.chunks.size(); ++index) {
        const ParamChunk &from = task.chunks[index], &to = at_home.chunks[index];
        down.add(from.param, from.weights, to.weights, weight_bytes(in_.param(from.param), from.count), from.count);
        down.add(from.param, from.low, to.low, from.count * 2, from.count);
        for (size_t s = 0; s < from.state.size(); ++s)
            down.add(from.param, from.state[s], to.state[s],
                     state_bytes(in_.recipe.state[s], in_.param(from.param).spec, from.first, from.count), from.count);
    }
    down.move(builder_);
}

// What is done again the host does, from what it kept.
void UpdateStream::bring_gradient_down(ParamTask& task) {
    int64_t end = 0;
    Copies down(MoveKind::down, DiskPlace::state);
    const BufferId made = builder_.next_buffer();
    for (ParamChunk& chunk : task.chunks) {
        const int64_t bytes = piece_bytes(in_, DiskPlace::gradient, {chunk.param, chunk.first, chunk.count});
        down.add(chunk.param, chunk.gradient, {made, end}, bytes, chunk.count);
        chunk.gradient = {made, end};
        end += bytes;
    }
    builder_.buffer({"gradients", in_.param(task.chunks[0].param).spec.block}, MemoryTag::gradients, end,
                    TierKind::host);
    down.move(builder_);
}

}  // namespace windlass
