// What the runs of a block read instead of its weights as they are kept: copies in another type, perturbed copies,
// directions; with the updates that the weights lack.
#include <algorithm>

#include "base/index.h"
#include "schedule/builder.h"

namespace windlass {

int64_t ScheduleBuilder::copy_bytes(int pass, int param) const {
    return probe_bytes(in_.recipe.passes[at(pass)], in_.param(param).spec, in_.numerics.compute);
}

void ScheduleBuilder::convert(int block, BlockWeights& weights) {
    const std::vector<int>& params = this->block(block).params;
    if (std::ranges::none_of(params, [&](int param) { return in_.converts(param); })) return;
    BlockWeights converted = std::move(materialize({.block = block}, weights).points[0]);
    weights.read = std::move(converted.read);
    weights.uses = std::move(converted.uses);
}

MaterializedWeights ScheduleBuilder::materialize(const Materialization& wanted, const BlockWeights& weights) {
    const int block = wanted.block, pass = wanted.pass;
    const PassKind kind = pass < 0 ? PassKind::forward : in_.recipe.passes[at(pass)].kind;
    const bool tangents = kind == PassKind::tangent, clean = pass >= 0 && in_.recipe.passes[at(pass)].clean;
    const int copies = pass < 0 || clean ? 0 : wanted.point < 0 ? in_.recipe.passes[at(pass)].k : 1;
    const bool wants_plain = tangents || clean || (pass < 0 && !wanted.updates);
    const int64_t element = dtype_bytes(in_.numerics.compute);
    const BufferId made = in_.persistent_count + std::ssize(schedule_.buffers);  // if anything is written
    const std::vector<int>& params = this->block(block).params;
    ParamTask task{.kernel = &in_.recipe.arrival(), .block = block, .pass = pass, .point = wanted.point};
    task.chunks.reserve(params.size());
    MaterializedWeights ready{.points = std::vector<BlockWeights>(at(wants_plain || pass < 0 ? 1 : copies))};
    int64_t end = 0;
    const auto room = [&](int64_t bytes) {
        const BufferSlice slice{made, end};
        end += aligned_bytes(bytes, 1);
        return slice;
    };
    const auto reads = [&](BlockWeights& point, const WeightUse& use, int64_t numel) {
        point.read.push_back(use);
        const int64_t bytes = numel * dtype_bytes(use.type);
        add_use(point.uses, {use.data.buffer, false, use.data.offset, use.data.offset + bytes});
        if (use.low.buffer == kNoBuffer) return;
        add_use(point.uses, {use.low.buffer, false, use.low.offset, use.low.offset + 2 * numel});
    };
    for (size_t index = 0; index < params.size(); ++index) {
        const int param = params[index];
        const int64_t numel = in_.param(param).numel(), bytes = numel * element;
        const WeightUse& stored = weights.read[index];
        const bool is_home = in_.param(param).spec.block == block, fetched = in_.is_fetched(param, stored.data);
        const bool updates = wanted.updates && in_.is_stored_to(param);
        ParamChunk each{.param = param, .count = numel, .weights = stored.data, .updates = updates && is_home};
        decide_updates(each, wanted.updates, fetched);
        // All points of frozen parameters are the weights themselves, and they have no directions.
        const bool shares = copies > 0 && !in_.param(param).trains();
        if ((wants_plain || shares) && in_.converts(param)) each.plain = room(bytes);
        const auto made_at = [&](const BufferSlice& slice) { return WeightUse{slice, {}, in_.numerics.compute}; };
        const WeightUse plain = each.plain.buffer == kNoBuffer ? stored : made_at(each.plain);
        if (wants_plain) reads(ready.points[0], plain, numel);
        if (copies > 0 && !shares) each.probes = room(copies * copy_bytes(pass, param));
        for (int point = 0; !tangents && point < copies; ++point)
            reads(ready.points[at(point)], shares ? plain : made_at({made, each.probes.offset + point * bytes}), numel);
        if (tangents) ready.directions.push_back(each.probes);
        task.chunks.push_back(std::move(each));
    }
    if (end > 0) {
        const BufferId is = buffer({"probes", block}, MemoryTag::probes, end, TierKind::device);
        WINDLASS_CHECK(is == made, "buffer {} was to be {}", is, made);
    }
    add_materialization(std::move(task));
    return ready;
}

// Weights that are updated where they live lack the last step's update alone. Fetched ones lack all since they were
// last written back: the first time they are fetched; and every further time, but for steps in which the first one has
// been written back. Updates that are stored by the window are in no weights until it is over, so every copy lacks
// them.
void ScheduleBuilder::decide_updates(ParamChunk& each, bool is_first, bool fetched) const {
    if (!in_.is_stored_to(each.param)) return;
    if (in_.param(each.param).perturb.merge == Merge::per_window) {
        each.writing_back = each.updates ? Applies::deferred : Applies::none;
        each.between = Applies::deferred;
    } else if (each.updates) {
        each.writing_back = each.between = fetched ? Applies::deferred : Applies::last;
    } else if (is_first && fetched && schedule_.writeback_steps > 1) {
        each.between = Applies::deferred;
    }
}

// How many updates a materialization applies, on the average over a period of steps: fetched weights lack 1, 2 ... n in
// turn. A window's are one.
double ScheduleBuilder::mean_updates(const Param& param, const ParamChunk& each) const {
    const double steps = schedule_.writeback_steps;
    if (param.perturb.merge == Merge::per_window) return each.updates ? 1.0 / steps : 0;
    if (each.between == Applies::last) return 1;
    if (each.between == Applies::none) return 0;
    return each.writing_back == Applies::none ? (steps - 1) / 2 : (steps + 1) / 2;
}

// Nothing to do is no task.
void ScheduleBuilder::add_materialization(ParamTask task) {
    Demand demand;
    bool writes = false;
    const auto make = [&](const BufferSlice& slice, const ParamChunk& each, ParamSlot slot) {
        if (slice.buffer == kNoBuffer) return;
        demand.memory_bytes += slot_bytes(task, each, slot);
        writes = true;
    };
    for (ParamChunk& each : task.chunks) {
        const Param param = in_.param(each.param);
        const double updates = mean_updates(param, each);
        each.stores = updates > 0;
        writes = writes || each.stores;
        const int64_t bytes = weight_bytes(param, param.numel());
        // Read as well as written, once in `period` steps.
        const int64_t period = param.perturb.merge == Merge::per_window ? schedule_.writeback_steps : 1;
        demand.memory_bytes += bytes + (each.stores ? bytes / period : 0);
        if (in_.recipe.draws)
            demand.noise += static_cast<double>(param.numel()) * in_.recipe.draws(param, task.pass, updates);
        make(each.plain, each, ParamSlot::plain);
        make(each.probes, each, ParamSlot::probes);
    }
    if (writes) param(std::move(task), LaneKind::compute, demand);
}

}  // namespace windlass
