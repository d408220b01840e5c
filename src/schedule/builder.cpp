#include "schedule/builder.h"

#include <algorithm>
#include <array>

#include "base/index.h"
#include "schedule/kernel_rate.h"

namespace windlass {

// Placing and deriving waits go over every use of every task, and a search lowers thousands of schedules: the
// parameters of a block, which lie one after the other, are one use.
void add_use(std::vector<BufferUse>& uses, const BufferUse& use) {
    if (!uses.empty() && uses.back().buffer == use.buffer && uses.back().write == use.write &&
        uses.back().end == use.begin)
        uses.back().end = use.end;
    else
        uses.push_back(use);
}

OpSize op_size(const TrainedModel& model, const Numerics& numerics, const Plan& plan, const ScheduleRequest& request) {
    const bool splits = std::ranges::any_of(model.blocks, [&](const Block& block) {
        return std::ranges::any_of(block.params, [&](int param) { return joins_halves(model.param(param), numerics); });
    });
    return {.rows = request.rows,
            .sequence_length = request.sequence_length,
            .device = plan.device.kind,
            .compute = numerics.compute,
            .split_weights = splits,
            .threads = plan.threads};
}

constexpr size_t kTasks = 512;  // that there is room for at first

ScheduleBuilder::ScheduleBuilder(const LowerInput& input, const ScheduleRequest& request) : in_(input) {
    schedule_.name = schedule_name(request);
    schedule_.update_key = update_key(input.recipe);
    schedule_.size = op_size(input.model, input.numerics, input.plan, request);
    schedule_.micro_batches = request.micro_batches;
    schedule_.writes_answers = request.writes_answers;
    schedule_.host_threads = input.plan.host_threads;
    // The same lanes in every schedule of a run: the engine makes its streams and movers once, for those of the first.
    schedule_.lanes = lanes_beside(input.plan.device.index);
    // Of a model of some twenty layers, so that planning, which makes thousands, seldom has them grow.
    schedule_.tasks.reserve(kTasks);
    schedule_.uses.reserve(4 * kTasks);
    schedule_.buffers.reserve(kTasks);
    // After weights that go up early, the first run would wait for those, too.
    const bool runs = request.kind != ScheduleRequest::Kind::redo && request.kind != ScheduleRequest::Kind::flush;
    if (!runs || input.plan.order != MicroOrder::layer_first || request.writes_answers) return;
    for (int micro = 0; micro < request.micro_batches; ++micro) tokens_of(0, micro);
}

const Block& ScheduleBuilder::block(int index) const {
    return at(index) < in_.model.blocks.size() ? in_.model.blocks[at(index)] : in_.model.logits;
}

int ScheduleBuilder::index_of(const Block& block) const {
    const std::ptrdiff_t index = &block - in_.model.blocks.data();
    return &block == &in_.model.logits ? -1 : static_cast<int>(index);
}

BufferId ScheduleBuilder::buffer(const BufferName& name, MemoryTag tag, int64_t bytes, TierKind tier) {
    schedule_.buffers.push_back({.name = std::string(name.what),
                                 .tag = tag,
                                 .bytes = bytes,
                                 .tier = find_tier(in_.tiers, tier_beside(tier, in_.plan.device.index)),
                                 .block = name.block,
                                 .micro = name.micro});
    return in_.persistent_count + static_cast<int>(schedule_.buffers.size()) - 1;
}

int ScheduleBuilder::segment(const Block& block, SegmentKey key) {
    // The address is enough: equal blocks share one program, and no search has to compare programs.
    key.program = block.program.get();
    const auto [entry, is_new] = segment_index_.try_emplace(key, 0);
    if (!is_new) return entry->second;
    PassOptions options{.size = schedule_.size, .save = key.save, .choices = key.saved};
    if (key.one_token) options.size.rows = options.size.sequence_length = 1;
    options.want_grad_input = key.passes_gradient_on && !block.program->inputs.empty();
    options.size.k = std::max(1, key.tangents);
    options.size.rank = key.rank;
    // No part of the key: blocks that train other parameters have a program of their own (method/param_groups.h).
    for (const int param : block.params) options.trainable.push_back(in_.wants_gradient(param));
    schedule_.segments.push_back(key.backward       ? backward_pass(block.program, options)
                                 : key.tangents > 0 ? tangent_pass(block.program, options)
                                                    : forward_pass(block.program, options));
    entry->second = static_cast<int>(schedule_.segments.size()) - 1;
    return entry->second;
}

// Weights, or low halves, of one block: slices of what memory holds; the rest is read into a buffer of its own.
void ScheduleBuilder::read_halves(const Block& block, DiskPlace place, std::vector<BufferSlice>& slices) {
    const bool is_low = place == DiskPlace::low;
    MoveTask task{.kind = MoveKind::disk_read, .place = place};
    int64_t end = 0;
    // Slices name the buffer before it is made: how large it is shows only after the last parameter.
    const BufferId made = next_buffer();  // if something is read
    slices.reserve(block.params.size());
    for (const int param : block.params) {
        const bool is_wanted = !is_low || in_.needs_low(param);
        const BufferSlice kept = is_low ? in_.place(param).low : in_.place(param).weights;
        // If the device has a copy of a weight, runs read that: the master on disk is for updates alone.
        const bool is_read = is_wanted && kept.buffer == kNoBuffer && in_.place(param).resident.buffer == kNoBuffer;
        slices.push_back(is_read ? BufferSlice{made, end} : is_wanted ? kept : BufferSlice());
        if (!is_read) continue;
        if (task.pieces.empty()) task.pieces.reserve(block.params.size());
        const auto bytes = [&](int64_t count) { return is_low ? 2 * count : weight_bytes(in_.param(param), count); };
        for (const ChunkSpan& chunk : in_.chunks(param)) {
            task.pieces.push_back({.param = param,
                                   .first = chunk.first,
                                   .count = chunk.count,
                                   .offset = end + bytes(chunk.first),
                                   .bytes = piece_bytes(in_, place, chunk)});
        }
        end += round_up(bytes(in_.param(param).numel()), kParamAlignment);
    }
    if (task.pieces.empty()) return;
    task.buffer = buffer({is_low ? "low" : "weights", index_of(block)},
                         is_low ? MemoryTag::low_halves : MemoryTag::weights, end, in_.host_tier());
    move(std::move(task));
}

BlockWeights ScheduleBuilder::read_weights(const Block& block) {
    BlockWeights weights;
    read_halves(block, DiskPlace::weight, weights.host_hi);
    return weights;
}

bool ScheduleBuilder::needs_low(const Block& block) const {
    return std::ranges::any_of(block.params, [&](int param) { return in_.needs_low(param); });
}

bool ScheduleBuilder::stays_on_device(int param) const {
    return in_.plan_of(param).weights == Home::device;
}

int64_t ScheduleBuilder::upload_bytes(const Block& block) const {
    int64_t bytes = 0;
    for (const int param : block.params) {
        if (!stays_on_device(param)) bytes += aligned_weight_bytes(in_.param(param), in_.param(param).numel());
    }
    return bytes;
}

void ScheduleBuilder::upload_halves(const Block& block, const std::vector<BufferSlice>& from,
                                    std::vector<BufferSlice>& to, bool is_low, BufferId slot) {
    std::vector<MoveTask> tasks;  // one for each buffer that is read
    int64_t end = 0;
    const BufferId target = slot == kNoBuffer ? next_buffer() : slot;
    to.reserve(block.params.size());
    for (size_t index = 0; index < block.params.size(); ++index) {
        const int param = block.params[index];
        const BufferSlice resident = is_low ? in_.place(param).resident_low : in_.place(param).resident;
        const bool is_resident = resident.buffer != kNoBuffer;
        const bool stays = is_resident || stays_on_device(param) || from[index].buffer == kNoBuffer;
        to.push_back(is_resident ? resident : stays ? from[index] : BufferSlice{target, end});
        if (stays) continue;
        const int64_t numel = in_.param(param).numel();
        const int64_t bytes = is_low ? aligned_bytes(numel, 2) : aligned_weight_bytes(in_.param(param), numel);
        if (tasks.empty() || tasks.back().source != from[index].buffer)
            tasks.push_back({.kind = MoveKind::up, .buffer = target, .source = from[index].buffer});
        if (tasks.back().pieces.empty()) tasks.back().pieces.reserve(block.params.size() - index);
        tasks.back().pieces.push_back({.param = param, .offset = end, .source = from[index].offset, .bytes = bytes});
        end += bytes;
    }
    if (tasks.empty()) return;
    if (slot == kNoBuffer)
        buffer({is_low ? "low, device" : "weights, device", index_of(block)},
               is_low ? MemoryTag::low_halves : MemoryTag::weights, end, TierKind::device);
    for (MoveTask& each : tasks) move(std::move(each));
}

void ScheduleBuilder::upload(const Block& block, BlockWeights& weights, BufferId slot) {
    const bool has_low = needs_low(block);
    // Slots are for forward-only steps, whose weights keep the type of their files and have no low half.
    WINDLASS_CHECK(slot == kNoBuffer || !has_low, "{}: one slot for both halves", block.name);
    // Low halves are read only now, not ahead with the weights: a deferred update, which ends just before this, writes
    // them to disk with the state. An earlier read would get those of the step before.
    if (has_low) read_halves(block, DiskPlace::low, weights.host_lo);
    std::vector<BufferSlice> data, low;
    if (in_.plan.own_memory()) {
        upload_halves(block, weights.host_hi, data, false, slot);
        if (has_low) upload_halves(block, weights.host_lo, low, true, kNoBuffer);
    } else {
        data = weights.host_hi;
        low = weights.host_lo;
    }
    // Worked out once: the runs of all micro-batches use the same bytes.
    weights.read.reserve(block.params.size());
    weights.uses.reserve((has_low ? 2 : 1) * block.params.size());
    for (size_t index = 0; index < block.params.size(); ++index) {
        const Param param = in_.param(block.params[index]);
        const auto use = [&](const BufferSlice& slice, int64_t bytes) {
            add_use(weights.uses, {slice.buffer, false, slice.offset, slice.offset + bytes});
        };
        weights.read.push_back({data[index], has_low ? low[index] : BufferSlice(), param.storage.dtype});
        use(data[index], aligned_weight_bytes(param, param.numel()));
        if (weights.read.back().low.buffer != kNoBuffer) use(low[index], aligned_bytes(param.numel(), 2));
    }
}

void ScheduleBuilder::run(RunTask task, const BlockWeights& weights, std::vector<BufferUse> uses) {
    const Segment& segment = segment_at(task.segment);
    task.weights = weights.read;
    // Points that write answers each continue rows of their own.
    task.tokens = tokens_of(schedule_.writes_answers ? task.probe_index : 0, task.micro);
    uses.reserve(uses.size() + weights.uses.size() + 2);
    uses.push_back({task.tokens.buffer, false});
    uses.insert(uses.end(), weights.uses.begin(), weights.uses.end());
    // Each run has a workspace of its own, and they share addresses, since no two live at once. One buffer for all runs
    // would live from the first to the last of them, and keep its bytes from everything in between.
    const int64_t work_bytes = segment.region_bytes(Region::work);
    if (work_bytes > 0) {
        const BufferId work =
            buffer({"work", task.block, task.micro}, MemoryTag::workspace, work_bytes, TierKind::device);
        task.regions[static_cast<size_t>(Region::work)] = {work, 0};
        uses.push_back({work, true});
    }
    schedule_.runs.push_back(std::move(task));
    add({Verb::run, LaneKind::compute, schedule_.runs.size() - 1, schedule_.runs.back().block}, uses,
        {.flops = segment.cost.flops, .model_flops = segment.cost.model_flops, .memory_bytes = segment.cost.bytes});
}

// They are brought when they are asked for first.
BufferSlice ScheduleBuilder::tokens_of(int point, int micro) {
    const auto [entry, is_new] = tokens_.try_emplace({point, micro});
    if (!is_new) return entry->second;
    // Without a link there is no lane for it: the compute lane puts tokens into its own memory.
    const bool goes_up = in_.plan.own_memory();
    const int64_t bytes = kTokenBytes * schedule_.size.tokens();
    const BufferId made = buffer({"tokens", -1, micro}, MemoryTag::block_inputs, bytes, TierKind::device);
    entry->second = {made, 0};
    schedule_.moves.push_back(
        {.kind = MoveKind::tokens, .buffer = made, .micro = micro, .probe_index = point, .pieces = {{.bytes = bytes}}});
    add({Verb::move, goes_up ? LaneKind::up : LaneKind::compute, schedule_.moves.size() - 1},
        std::array{BufferUse{made, true}}, {.memory_bytes = goes_up ? 0 : 2 * bytes, .up_bytes = goes_up ? bytes : 0});
    return entry->second;
}

void ScheduleBuilder::move(MoveTask task) {
    Demand demand;
    std::vector<BufferUse>& uses = no_uses();
    const bool copies = task.kind == MoveKind::up || task.kind == MoveKind::down;
    const bool writes = task.kind != MoveKind::disk_write;
    int64_t bytes = 0;
    for (const MovePiece& piece : task.pieces) {
        bytes += piece.bytes;
        add_use(uses, {task.buffer, writes, piece.offset, piece.offset + piece.bytes});
    }
    if (copies) {
        for (const MovePiece& piece : task.pieces)
            add_use(uses, {task.source, false, piece.source, piece.source + piece.bytes});
    }
    switch (task.kind) {
        case MoveKind::disk_read:
            demand.disk_read_bytes = bytes;
            break;
        case MoveKind::disk_write:
            demand.disk_write_bytes = bytes;
            break;
        case MoveKind::up:
            demand.up_bytes = bytes;
            break;
        case MoveKind::down:
            demand.down_bytes = bytes;
            break;
        case MoveKind::tokens:
            WINDLASS_CHECK(false, "tokens come when they are asked for");
    }
    const LaneKind lane = lane_of(task.kind);
    const int param = task.pieces.front().param;
    // An estimate repeats the tasks of a layer by their block, so a move that names no parameter belongs to the block
    // of its buffer.
    const bool is_own = task.buffer >= in_.persistent_count;
    const int block = param >= 0 ? in_.param(param).spec.block
                      : is_own   ? schedule_.buffers[at(task.buffer - in_.persistent_count)].block
                                 : -1;
    schedule_.moves.push_back(std::move(task));
    add({Verb::move, lane, schedule_.moves.size() - 1, block}, uses, demand);
}

void ScheduleBuilder::decide(Stage stage) {
    const bool reads_norm = stage != Stage::on_losses && in_.recipe.needs_norm();
    std::vector<BufferUse>& uses = no_uses();
    if (reads_norm && in_.ids.squares != kNoBuffer) uses.push_back({in_.ids.squares, false});
    // It names no buffer of the losses: the runs that leave them come before it on the same lane.
    schedule_.hosts.push_back({stage});
    add({Verb::host, LaneKind::compute, schedule_.hosts.size() - 1}, uses, {});
}

void ScheduleBuilder::mark() {
    // A commit writes and syncs. On the lane of disk writes it follows the writes that it makes current, and neither
    // reads nor computing wait for it.
    schedule_.hosts.push_back({});
    add({Verb::host, LaneKind::disk_write, schedule_.hosts.size() - 1}, {}, {});
}

void ScheduleBuilder::add(const Added& added, std::span<const BufferUse> uses, const Demand& demand) {
    schedule_.tasks.push_back({.verb = added.verb,
                               .lane = find_lane(schedule_.lanes, lane_beside(added.lane, in_.plan.device.index)),
                               .payload = static_cast<int>(added.payload),
                               .block = added.block,
                               .when = when_,
                               .first_use = static_cast<int>(schedule_.uses.size()),
                               .use_count = static_cast<int>(uses.size()),
                               .demand = demand});
    schedule_.uses.insert(schedule_.uses.end(), uses.begin(), uses.end());
}

}  // namespace windlass
