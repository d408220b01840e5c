#include "schedule/builder.h"

namespace windlass {
namespace {

size_t at(int index) {
    return static_cast<size_t>(index);
}

}  // namespace

ScheduleBuilder::ScheduleBuilder(const LowerInput& input, const ScheduleRequest& request) : in_(input) {
    schedule_.name = schedule_name(request);
    schedule_.size = {.rows = request.rows,
                      .row_length = request.row_length,
                      .compute = input.numerics.compute,
                      .split_weights = input.needs_low(),
                      .threads = input.plan.threads};
    schedule_.micro_count = request.micro_count;
}

const Block& ScheduleBuilder::block(int index) const {
    return at(index) < in_.model.blocks.size() ? in_.model.blocks[at(index)] : in_.model.logits;
}

BufferId ScheduleBuilder::buffer(std::string name, Owner owner, int64_t bytes) {
    schedule_.buffers.push_back({.name = std::move(name), .owner = owner, .bytes = bytes});
    return in_.persistent_count + static_cast<int>(schedule_.buffers.size()) - 1;
}

int ScheduleBuilder::segment(const Block& block, SegmentKind kind) {
    const auto [entry, is_new] = segment_index_.try_emplace({block.program.get(), kind}, 0);
    if (!is_new) return entry->second;
    SweepOptions options{.size = schedule_.size};
    options.save = kind == SegmentKind::forward_save || kind == SegmentKind::reverse;
    options.want_grad_input = !block.program->inputs.empty();
    for (const int param : block.params) options.trainable.push_back(in_.model.params[at(param)].trainable);
    const bool forward = kind == SegmentKind::forward || kind == SegmentKind::forward_save;
    schedule_.segments.push_back(forward ? sweep_forward(block.program, options)
                                         : sweep_reverse(block.program, options));
    entry->second = static_cast<int>(schedule_.segments.size()) - 1;
    return entry->second;
}

BlockWeights ScheduleBuilder::fetch(const Block& block) {
    BlockWeights weights;
    const auto from_disk = [&](DiskPlace place, std::vector<BufferSlice>& slices) {
        MoveTask task{.place = place};
        int64_t end = 0;
        for (const int param : block.params) {
            const ParamSpec& spec = in_.model.params[at(param)];
            const int64_t element_bytes = place == DiskPlace::low ? 2 : weight_bytes(spec);
            slices.push_back({kNoBuffer, end});
            for (const ChunkSpan& chunk : chunks_of(in_.model, param))
                task.pieces.push_back({param, chunk.first, chunk.count, end + chunk.first * element_bytes});
            end += aligned_bytes(spec.numel(), element_bytes);
        }
        task.buffer = buffer(fmt::format("{}.{}", block.name, place == DiskPlace::low ? "low" : "weights"),
                             place == DiskPlace::low ? Owner::low_halves : Owner::weights, end);
        for (BufferSlice& slice : slices) slice.buffer = task.buffer;
        weights.buffers.push_back(task.buffer);
        move(std::move(task));
    };
    const auto from_memory = [&](BufferId buffer, std::vector<BufferSlice>& slices) {
        for (const int param : block.params) slices.push_back({buffer, in_.ids.weight_offsets[at(param)]});
        weights.buffers.push_back(buffer);
    };
    if (in_.plan.weights == Home::memory)
        from_memory(in_.ids.weights, weights.hi);
    else
        from_disk(DiskPlace::weight, weights.hi);
    if (!in_.needs_low()) return weights;
    if (in_.ids.low != kNoBuffer)
        from_memory(in_.ids.low, weights.lo);
    else
        from_disk(DiskPlace::low, weights.lo);
    return weights;
}

void ScheduleBuilder::run(RunTask task, const BlockWeights& weights, std::vector<BufferUse> uses) {
    const Segment& segment = segment_at(task.segment);
    task.hi = weights.hi;
    task.lo = weights.lo;
    for (const BufferId id : weights.buffers) uses.push_back({id, false});
    const int64_t work_bytes = segment.region_bytes(Region::work);
    if (work_bytes > 0) {
        const BufferId work =
            buffer(fmt::format("{}.{}.work", block(task.block).name, task.micro), Owner::workspace, work_bytes);
        task.regions[static_cast<size_t>(Region::work)] = {work, 0};
        uses.push_back({work, true});
    }
    schedule_.runs.push_back(std::move(task));
    add(Verb::run, LaneKind::compute, schedule_.runs.size() - 1, std::move(uses),
        {.flops = segment.cost.flops, .model_flops = segment.cost.model_flops, .memory_bytes = segment.cost.bytes});
}

void ScheduleBuilder::move(MoveTask task) {
    Demand demand;
    for (const MovePiece& piece : task.pieces) {
        const ParamSpec& param = in_.model.params[at(piece.param)];
        int64_t bytes = 0;
        switch (task.place) {
            case DiskPlace::weight:
                bytes = aligned_bytes(piece.count, weight_bytes(param));
                break;
            case DiskPlace::low:
                bytes = aligned_bytes(piece.count, 2);
                break;
            case DiskPlace::state:
                bytes = round_up(state_sections(in_.recipe, piece.count).back(), kParamAlignment);
                break;
            case DiskPlace::gradient:
                bytes = aligned_bytes(piece.count, 4);
                break;
        }
        (task.to_disk ? demand.disk_write_bytes : demand.disk_read_bytes) += bytes;
    }
    const LaneKind lane = task.to_disk ? LaneKind::disk_write : LaneKind::disk_read;
    std::vector<BufferUse> uses = {{task.buffer, !task.to_disk}};
    schedule_.moves.push_back(std::move(task));
    add(Verb::move, lane, schedule_.moves.size() - 1, std::move(uses), demand);
}

void ScheduleBuilder::update(UpdateTask task) {
    std::vector<BufferUse> uses = {{task.hi.buffer, true}, {task.lo.buffer, true}, {task.gradient.buffer, false}};
    for (const BufferSlice& slice : task.state) {
        if (slice.buffer != task.lo.buffer) uses.push_back({slice.buffer, true});
    }
    const Demand demand{.memory_bytes = task.count * in_.recipe.update_bytes_per_element};
    schedule_.updates.push_back(std::move(task));
    add(Verb::update, LaneKind::compute, schedule_.updates.size() - 1, std::move(uses), demand);
}

void ScheduleBuilder::reduce(ReduceTask task) {
    std::vector<BufferUse> uses;
    Demand demand;
    if (task.param >= 0) {
        uses.push_back({task.gradient.buffer, false});
        demand.memory_bytes = in_.model.params[at(task.param)].numel() * 4;
    }
    schedule_.reduces.push_back(task);
    add(Verb::reduce, LaneKind::compute, schedule_.reduces.size() - 1, std::move(uses), demand);
}

void ScheduleBuilder::add(Verb verb, LaneKind lane, size_t payload, std::vector<BufferUse> uses, Demand demand) {
    schedule_.tasks.push_back(
        {.verb = verb, .lane = lane, .payload = static_cast<int>(payload), .uses = std::move(uses), .demand = demand});
}

}  // namespace windlass
