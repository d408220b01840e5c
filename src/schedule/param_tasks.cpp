// Tasks over parameters: what they use and what they cost follows from the record of their kernel.
#include <algorithm>
#include <tuple>

#include "base/index.h"
#include "schedule/builder.h"

namespace windlass {
namespace {

const BufferSlice& slice_of(const ParamChunk& chunk, ParamSlot slot) {
    static const BufferSlice kNone;
    switch (slot) {
        case ParamSlot::weights:
            return chunk.weights;
        case ParamSlot::low:
            return chunk.low;
        case ParamSlot::gradient:
            return chunk.gradient;
        case ParamSlot::judge:
            return chunk.judge;
        case ParamSlot::narrow:
            return chunk.narrow;
        case ParamSlot::plain:
            return chunk.plain;
        case ParamSlot::probes:
            return chunk.probes;
        case ParamSlot::squares:
            return chunk.squares;
        case ParamSlot::kept:
            return chunk.kept;
        case ParamSlot::state:
            break;  // several
    }
    return kNone;
}

bool is_narrow(const ParamTask& task, const ParamChunk& chunk) {
    return task.uses(ParamSlot::gradient) && chunk.gradient_format != GradientFormat::f32;
}

}  // namespace

int64_t ScheduleBuilder::slot_bytes(const ParamTask& task, const ParamChunk& chunk, ParamSlot slot) const {
    const Param param = in_.param(chunk.param);
    switch (slot) {
        case ParamSlot::weights:
            return aligned_weight_bytes(param, chunk.count);
        case ParamSlot::low:
            return aligned_bytes(chunk.count, 2);
        case ParamSlot::gradient:
            return gradient_chunk_bytes(chunk.gradient_format, chunk.count);
        case ParamSlot::judge:
            return aligned_bytes(chunk.count, 4);
        case ParamSlot::narrow:
            return gradient_chunk_bytes(in_.numerics.gradient_format, chunk.count);
        case ParamSlot::plain:
            return chunk.count * dtype_bytes(in_.numerics.compute);
        case ParamSlot::probes:
            return (task.point < 0 ? in_.recipe.passes[at(task.pass)].k : 1) * copy_bytes(task.pass, chunk.param);
        case ParamSlot::squares:
            return squares_bytes(chunk.count);
        case ParamSlot::kept:
            return kept_bytes(in_.recipe, param, chunk.first, chunk.count);
        case ParamSlot::state:
            break;
    }
    WINDLASS_CHECK(false, "state has several arrays");
    return 0;
}

// A store's block has low halves and state together.
void ScheduleBuilder::bind_chunk(const ParamTask& task, const ParamChunk& chunk) {
    const Param param = in_.param(chunk.param);
    const auto use = [&](const BufferSlice& slice, int64_t bytes, bool write) {
        if (slice.buffer != kNoBuffer && bytes > 0)
            scattered_.push_back({slice.buffer, write, slice.offset, slice.offset + bytes});
    };
    for (const SlotUse& each : task.kernel->uses) {
        // Declared as a writer, a task that only makes copies would hold up all other readers of the weights.
        const bool writes = each.writes() && (each.slot != ParamSlot::weights || chunk.stores);
        const bool is_in_block = each.slot == ParamSlot::low || each.slot == ParamSlot::state;
        if (is_in_block && chunk.block.buffer != kNoBuffer) {
            // One use for the whole block, even if the kernel names both of its parts.
            if (each.slot == ParamSlot::low || task.kernel->use_of(ParamSlot::low) == nullptr)
                use(chunk.block, state_block_bytes(in_.recipe, param, chunk.first, chunk.count), writes);
        } else if (each.slot == ParamSlot::state) {
            for (size_t s = 0; s < chunk.state.size(); ++s)
                use(chunk.state[s],
                    round_up(state_bytes(in_.recipe.state[s], param.spec, chunk.first, chunk.count), kParamAlignment),
                    writes);
        } else if (const BufferSlice& slice = slice_of(chunk, each.slot); slice.buffer != kNoBuffer) {
            use(slice, slot_bytes(task, chunk, each.slot), writes);
        }
    }
}

int64_t wide_bytes(const ParamTask& task) {
    int64_t most = 0, of_parameter = 0;
    const bool is_whole = task.kernel->grain == Grain::parameter;
    for (const ParamChunk& chunk : task.chunks) {
        // Chunks are widened one after the other, so room for one is enough; joined ones count as one chunk as well.
        // Those of a parameter that its kernel takes as one are widened together.
        of_parameter = chunk.first == 0 ? chunk.count : of_parameter + chunk.count;
        if (is_narrow(task, chunk))
            most = std::max(most, is_whole ? of_parameter : std::min(chunk.count, kChunkElements));
    }
    return aligned_bytes(most, 4);
}

// One parameter, or group, after the other works in the same bytes.
void ScheduleBuilder::make_work(ParamTask& task, LaneKind lane) {
    const bool on_host = lane == LaneKind::host;
    const TierKind tier = on_host ? in_.host_tier() : TierKind::device;
    const auto room = [&](std::string_view name, int64_t bytes) {
        const BufferId made = buffer({name, task.block}, MemoryTag::workspace, bytes, tier);
        scattered_.push_back({made, true, 0, bytes});
        return BufferSlice{made, 0};
    };
    if (const int64_t bytes = wide_bytes(task); bytes > 0) task.wide = room("wide", bytes);
    if (task.kernel->work_bytes == nullptr) return;
    ParamWork work{.tuple = task.tuple.get(),
                   .threads = on_host ? std::max(1, in_.plan.host_threads) : in_.plan.threads,
                   .iterations = task.iterations};
    int64_t most = 0;
    for (const ParamChunk& chunk : task.chunks) {
        const Param param = in_.param(chunk.param);
        work.params = {&param, 1};
        most = std::max(most, task.kernel->work_bytes(work));
        // A group's kernel asks for the whole group, whichever chunk is first.
        if (task.kernel->grain == Grain::group) break;
    }
    if (most > 0) task.work = room("param.work", round_up(most, kParamAlignment));
}

int64_t ScheduleBuilder::traffic(const ParamTask& task) const {
    if (task.kernel->traffic != nullptr)
        return task.kernel->traffic({.tuple = task.tuple.get(), .iterations = task.iterations});
    int64_t bytes = 0;
    for (const ParamChunk& chunk : task.chunks) {
        bytes += chunk.count * task.kernel->bytes_per_element;
        if (is_narrow(task, chunk)) bytes += slot_bytes(task, chunk, ParamSlot::gradient) + 4 * chunk.count;
        if (chunk.narrow.buffer != kNoBuffer) bytes += slot_bytes(task, chunk, ParamSlot::narrow);
        if (task.uses(ParamSlot::kept))
            bytes += 2 * slot_bytes(task, chunk, ParamSlot::kept);  // read here, written there
    }
    return bytes;
}

void ScheduleBuilder::param(ParamTask task, LaneKind lane, const Demand& beyond) {
    scattered_.clear();
    for (const ParamChunk& chunk : task.chunks) bind_chunk(task, chunk);
    make_work(task, lane);
    // By buffer, so that neighbours meet.
    const auto is_before = [](const BufferUse& a, const BufferUse& b) {
        return std::tie(a.buffer, a.write, a.begin) < std::tie(b.buffer, b.write, b.begin);
    };
    std::ranges::sort(scattered_, is_before);
    std::vector<BufferUse>& uses = no_uses();
    for (const BufferUse& each : scattered_) add_use(uses, each);
    Demand demand = beyond;
    demand.memory_bytes += traffic(task);
    const int block = task.block;
    schedule_.params.push_back(std::move(task));
    add({Verb::param, lane, schedule_.params.size() - 1, block}, uses, demand);
}

}  // namespace windlass
