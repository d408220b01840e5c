#include "schedule/lower_updates.h"

#include <algorithm>

#include "schedule/kept_version.h"

namespace windlass {

UpdateStream::UpdateStream(ScheduleBuilder& builder, Sources sources)
    : builder_(builder), in_(builder.in()), sources_(std::move(sources)) {}

void UpdateStream::add(ChunkGroup group) {
    Staged staged{.chunks = std::move(group)};
    stage_weights(staged);
    stage_state(staged);
    stage_gradient(staged);
    if (visits(staged.chunks)) stage_visit(staged);
    staged_.push_back(std::move(staged));
    // A group takes memory from its first read to its last write, so the number of groups under way is what bounds the
    // update's memory.
    while (std::ssize(staged_) > in_.plan.update_ahead) {
        finish(staged_.front());
        staged_.pop_front();
    }
}

void UpdateStream::drain() {
    for (const Staged& staged : staged_) finish(staged);
    staged_.clear();
}

void UpdateStream::drain_block(int block) {
    const auto is_of = [&](const Staged& staged) { return in_.param(staged.chunks[0].param).spec.block == block; };
    while (std::any_of(staged_.begin(), staged_.end(), is_of)) {
        finish(staged_.front());
        staged_.pop_front();
    }
}

void UpdateStream::move_pieces(const ChunkGroup& chunks, MoveKind kind, DiskPlace place,
                               const std::vector<BufferSlice>& slices) {
    // One task for each run of chunks in the same buffer.
    MoveTask task;
    const auto flush = [&] {
        if (!task.pieces.empty()) builder_.move(std::move(task));
    };
    for (size_t index = 0; index < chunks.size(); ++index) {
        const ChunkSpan& chunk = chunks[index];
        const int64_t bytes = piece_bytes(in_, place, chunk);
        if (bytes == 0) continue;
        if (task.pieces.empty() || task.buffer != slices[index].buffer) {
            flush();
            // A redo starts from what was there before the guess: that is the committed version, since the guess wrote
            // the other one.
            task = {.kind = kind,
                    .place = place,
                    .buffer = slices[index].buffer,
                    .committed = sources_.again && kind == MoveKind::disk_read};
            task.pieces.reserve(chunks.size() - index);
        }
        task.pieces.push_back({.param = chunk.param,
                               .first = chunk.first,
                               .count = chunk.count,
                               .offset = slices[index].offset,
                               .bytes = bytes});
    }
    flush();
}

void UpdateStream::read_into(const ChunkGroup& chunks, DiskPlace place, const std::vector<BufferSlice>& targets) {
    move_pieces(chunks, MoveKind::disk_read, place, targets);
}

std::vector<BufferSlice> UpdateStream::read(const ChunkGroup& chunks, DiskPlace place, MemoryTag tag) {
    int64_t end = 0;
    std::vector<BufferSlice> slices;
    slices.reserve(chunks.size());
    for (const ChunkSpan& chunk : chunks) {
        slices.push_back({kNoBuffer, end});
        end += piece_bytes(in_, place, chunk);
    }
    if (end == 0) return slices;
    // One buffer for the whole group, so that one task reads all of it.
    const BufferId made = builder_.buffer({memory_tag_name(tag), home_of(chunks)}, tag, end, in_.host_tier());
    for (BufferSlice& slice : slices) slice.buffer = made;
    read_into(chunks, place, slices);
    return slices;
}

void UpdateStream::stage_weights(Staged& staged) {
    ChunkGroup read_first;
    staged.weights.reserve(staged.chunks.size());
    for (const ChunkSpan& chunk : staged.chunks) {
        const BufferSlice whole = sources_.weights(chunk.param);
        if (whole.buffer == kNoBuffer) {
            if (read_first.empty()) read_first.reserve(staged.chunks.size());
            read_first.push_back(chunk);
        }
        staged.weights.push_back(behind(whole, weight_bytes(in_.param(chunk.param), chunk.first)));
    }
    const bool all_held = read_first.empty();
    const std::vector<BufferSlice> made = read(read_first, DiskPlace::weight, MemoryTag::weights);
    auto next = made.begin();
    for (BufferSlice& slice : staged.weights) {
        if (slice.buffer == kNoBuffer) slice = *next++;
    }
    // Memory has what the guess made of the weights; the store has them as they were.
    if (all_held && sources_.again && in_.plan.store) read_into(staged.chunks, DiskPlace::weight, staged.weights);
}

// All chunks of a group are at home in one block, and the first has state: its home is the home of all.
void UpdateStream::stage_state(Staged& staged) {
    if (!in_.plan.store) return;  // arrays of their own
    if (in_.place(staged.chunks[0].param).chunks.buffer == kNoBuffer) {
        staged.blocks = read(staged.chunks, DiskPlace::state, MemoryTag::state);
        return;
    }
    staged.blocks.reserve(staged.chunks.size());
    for (const ChunkSpan& chunk : staged.chunks)
        staged.blocks.push_back(
            behind(in_.place(chunk.param).chunks, state_block_offset(in_.recipe, in_.param(chunk.param), chunk.first)));
    // The same for state: the guess changed it in memory.
    if (sources_.again) read_into(staged.chunks, DiskPlace::state, staged.blocks);
}

void UpdateStream::stage_gradient(Staged& staged) {
    if (sources_.use) {
        staged.gradient.resize(staged.chunks.size());
        return;
    }
    const ChunkSpan& first = staged.chunks[0];
    if (sources_.gradient(first.param, first.first).buffer == kNoBuffer) {
        staged.gradient = read(staged.chunks, DiskPlace::gradient, MemoryTag::gradients);
        return;
    }
    staged.gradient.reserve(staged.chunks.size());
    for (const ChunkSpan& chunk : staged.chunks) {
        // A gradient that has its own buffer may be held by another one than its neighbour's.
        staged.gradient.push_back(sources_.gradient(chunk.param, chunk.first));
    }
}

LaneKind UpdateStream::lane_of(int param) const {
    if (in_.plan.host_threads == 0) return LaneKind::compute;
    // The host's threads cannot reach state in the memory of the device.
    const bool on_device = in_.plan.own_memory() && in_.plan_of(param).state == Home::device;
    return on_device ? LaneKind::compute : LaneKind::host;
}

ParamChunk UpdateStream::update_chunk(const Staged& staged, size_t index) const {
    const ChunkSpan& chunk = staged.chunks[index];
    ParamChunk update{.param = chunk.param,
                      .first = chunk.first,
                      .count = chunk.count,
                      .weights = staged.weights[index],
                      .gradient = staged.gradient[index],
                      .gradient_format = in_.place(chunk.param).gradient_format};
    update.state.reserve(in_.recipe.state.size());
    // Without a store each kind of state is an array over the parameter. With one, a chunk has its low halves and state
    // in one block, as the file does.
    if (staged.blocks.empty()) {
        const ParamPlace& place = in_.place(chunk.param);
        update.low = behind(place.low, chunk.first * 2);
        for (size_t s = 0; s < place.state.size(); ++s) {
            const StateSpec& state = in_.recipe.state[s];
            const bool has = state_bytes(state, in_.param(chunk.param).spec, chunk.first, chunk.count) > 0;
            update.state.push_back(has ? behind(place.state[s], state_offset(state, chunk.first)) : BufferSlice());
        }
        if (sources_.speculative || sources_.again)
            update.kept = behind(place.kept, kept_offset(in_.recipe, in_.param(chunk.param), chunk.first));
        return update;
    }
    const Param param = in_.param(chunk.param);
    int64_t end = low_section_bytes(param, chunk.count);
    for (const StateSpec& state : in_.recipe.state) {
        const int64_t bytes = state_section_bytes(state, param, chunk.first, chunk.count);
        update.state.push_back(bytes > 0 ? behind(staged.blocks[index], end) : BufferSlice());
        end += bytes;
    }
    if (end > 0) update.block = staged.blocks[index];
    if (param.storage.store == StoreType::split) update.low = update.block;  // low halves come first
    return update;
}

void UpdateStream::finish(const Staged& staged) {
    ParamTask task{.kernel = in_.recipe.update(), .block = home_of(staged.chunks), .speculative = sources_.speculative};
    task.chunks.reserve(staged.chunks.size());
    for (size_t index = 0; index < staged.chunks.size(); ++index) task.chunks.push_back(update_chunk(staged, index));
    if (!staged.visiting.empty()) return finish_visit(staged, std::move(task));
    // Before the task is moved from; the moves themselves follow the update.
    std::vector<MoveTask> up = ways_up(task);
    if (sources_.use)
        sources_.use(task);
    else
        update(std::move(task));
    for (MoveTask& move : up) builder_.move(std::move(move));
    if (in_.plan.store) write_back(staged);
}

void UpdateStream::update(ParamTask task) {
    if (in_.visits(task.chunks[0].param, task.chunks[0].first)) bring_gradient_down(task);
    const LaneKind lane = lane_of(task.chunks[0].param);
    // The guess changed memory, and without a store only `kept` has what was there before.
    if (!in_.plan.store && sources_.again) version(kRestoreVersion, task, lane);
    if (!in_.plan.store && sources_.speculative) version(kKeepVersion, task, lane);
    builder_.param(std::move(task), lane);
}

void UpdateStream::version(const ParamKernel& kernel, const ParamTask& task, LaneKind lane) {
    ParamTask copies = task;
    copies.kernel = &kernel;
    builder_.param(std::move(copies), lane);
}

// One task for each pair of buffers; a group's parameters are at home in one block.
std::vector<MoveTask> UpdateStream::ways_up(const ParamTask& task) const {
    std::vector<MoveTask> moves;
    const auto add = [&](const ParamChunk& chunk, const BufferSlice& from, const BufferSlice& to, int64_t bytes) {
        if (moves.empty() || moves.back().source != from.buffer || moves.back().buffer != to.buffer)
            moves.push_back({.kind = MoveKind::up, .buffer = to.buffer, .source = from.buffer});
        if (moves.back().pieces.empty()) moves.back().pieces.reserve(task.chunks.size());
        moves.back().pieces.push_back(
            {.param = chunk.param, .count = chunk.count, .offset = to.offset, .source = from.offset, .bytes = bytes});
    };
    // All high halves, then all low ones: taken chunk by chunk, each would begin a task for another pair of buffers.
    for (const ParamChunk& chunk : task.chunks) {
        const Param param = in_.param(chunk.param);
        if (const BufferSlice& resident = in_.place(chunk.param).resident; resident.buffer != kNoBuffer)
            add(chunk, chunk.weights, behind(resident, weight_bytes(param, chunk.first)),
                aligned_weight_bytes(param, chunk.count));
    }
    for (const ParamChunk& chunk : task.chunks) {
        if (const BufferSlice& low = in_.place(chunk.param).resident_low; low.buffer != kNoBuffer)
            add(chunk, chunk.low, behind(low, chunk.first * 2), chunk.count * 2);
    }
    return moves;
}

// To the version that is not current, the weights with the state: a commit covers both.
void UpdateStream::write_back(const Staged& staged) {
    move_pieces(staged.chunks, MoveKind::disk_write, DiskPlace::weight, staged.weights);
    move_pieces(staged.chunks, MoveKind::disk_write, DiskPlace::state, staged.blocks);
}

namespace {

// A schedule of nothing but the updates of blocks that update at this time, from gradients that were held.
Schedule lower_held(const LowerInput& input, ScheduleRequest::Kind kind, UpdateTime time) {
    ScheduleBuilder builder(input, {.kind = kind, .rows = 0, .sequence_length = 0, .micro_batches = 0});
    const bool is_flush = kind == ScheduleRequest::Kind::flush;
    // Deferred updates go by the numbers of the step before: execute knows them by this.
    builder.set_when(is_flush ? When::deferred : When::always);
    UpdateStream stream(builder,
                        {.weights = [&](int param) { return input.place(param).weights; },
                         .gradient = [&](int param, int64_t first) { return input.held_gradient(param, first); },
                         .again = kind == ScheduleRequest::Kind::redo});
    for (int block = 0; block < static_cast<int>(input.model.blocks.size()); ++block) {
        if (input.plan.of(block).update != time) continue;
        for (ChunkGroup& group : input.groups(block)) stream.add(std::move(group));
    }
    stream.drain();
    if (is_flush) builder.mark();
    return builder.finish();
}

}  // namespace

Schedule lower_redo(const LowerInput& input) {
    return lower_held(input, ScheduleRequest::Kind::redo, UpdateTime::in_backward);
}

Schedule lower_flush(const LowerInput& input) {
    return lower_held(input, ScheduleRequest::Kind::flush, UpdateTime::next_forward);
}

}  // namespace windlass
