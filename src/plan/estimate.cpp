#include "plan/estimate.h"

#include <cmath>
#include <numeric>

#include "base/math.h"
#include "model/shortened.h"
#include "schedule/check.h"
#include "schedule/layout.h"
#include "schedule/simulate.h"

namespace windlass {
namespace {

// a at depth `few`, b at depth `more`: on the line through both.
struct Line {
    double steps = 0;  // from `few` to the depth that is asked for, in units of more - few

    double operator()(double a, double b) const { return a + (b - a) * steps; }
    int64_t operator()(int64_t a, int64_t b) const { return a + std::llround(static_cast<double>(b - a) * steps); }
    template <typename T, size_t N>
    std::array<T, N> operator()(const std::array<T, N>& a, const std::array<T, N>& b) const {
        std::array<T, N> result{};
        for (size_t i = 0; i < N; ++i) result[i] = (*this)(a[i], b[i]);
        return result;
    }
    Demand operator()(const Demand& a, const Demand& b) const {
        const Line& line = *this;
        return {.flops = line(a.flops, b.flops),
                .model_flops = line(a.model_flops, b.model_flops),
                .noise = line(a.noise, b.noise),
                .memory_bytes = line(a.memory_bytes, b.memory_bytes),
                .up_bytes = line(a.up_bytes, b.up_bytes),
                .down_bytes = line(a.down_bytes, b.down_bytes),
                .disk_read_bytes = line(a.disk_read_bytes, b.disk_read_bytes),
                .disk_write_bytes = line(a.disk_write_bytes, b.disk_write_bytes)};
    }
    Estimate operator()(const Estimate& a, const Estimate& b) const {
        const Line& line = *this;
        return {.seconds = line(a.seconds, b.seconds),
                .busy_seconds = line(a.busy_seconds, b.busy_seconds),
                .demand = line(a.demand, b.demand),
                .arena_bytes = line(a.arena_bytes, b.arena_bytes),
                .activation_file_bytes = line(a.activation_file_bytes, b.activation_file_bytes)};
    }
};

// Bytes of a tier that are in use at one time, at most: what a placement without gaps would take.
int64_t alive_bytes(const ScheduleSet& set, TierId tier) {
    int64_t most = 0;
    for (const Schedule& schedule : set.schedules) {
        std::vector<int64_t> change(schedule.tasks.size() + 2, 0);
        for (const BufferSpec& buffer : schedule.buffers) {
            if (!(buffer.tier == tier)) continue;
            const int64_t bytes = round_up(buffer.bytes, kParamAlignment);
            change[static_cast<size_t>(buffer.first)] += bytes;
            change[static_cast<size_t>(buffer.last) + 1] -= bytes;
        }
        int64_t alive = 0;
        for (const int64_t each : change) most = std::max(most, alive += each);
    }
    return set.persistent_bytes[slot(tier)] + most;
}

// Depths of the two short models. Buffers for what is read, copied or updated ahead take turns, and where the turns
// stand at the end of a sweep decides how they share addresses: the deeper of the two ends as the whole model does.
struct Depths {
    int few = 0, more = 0;
};

Depths depths_for(int layers, const Plan& plan, int period) {
    constexpr int kFew = 3;  // beside the layers that are read ahead: both ends of a pipeline that is full
    constexpr int kApart = 2;
    const int copies = plan.own_memory() ? std::max(1, plan.upload_ahead) + 1 : 1;
    const int turns = std::lcm(std::lcm(period, copies), std::lcm(plan.read_ahead + 1, plan.update_ahead + 1));
    // Slots that layers go up into in turn are full and in step after two rounds.
    const int rounds = plan.upload_ahead > 0 ? 2 * copies : 0;
    const int apart = round_up(kApart, std::lcm(period, copies));
    const int least = kFew + plan.read_ahead + rounds + apart;
    const int more = least + (layers - least % turns + turns) % turns;
    return {more - apart, more};
}

}  // namespace

int64_t Estimate::memory_bytes() const {
    return std::accumulate(arena_bytes.begin(), arena_bytes.end(), int64_t{0});
}

Estimate estimate(const ModelSpec& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                  const std::function<Plan(int blocks)>& plan_for, const std::vector<ScheduleRequest>& requests,
                  int period) {
    // With the bytes that are alive as arena, and the gaps between them.
    std::array<int64_t, kTierKinds> gaps{};
    const auto evaluate = [&](const ModelSpec& each) {
        ScheduleSet set = lower(each, recipe, numerics, plan_for(static_cast<int>(each.blocks.size())), requests);
        check(set);
        const Simulation step = simulate(set.schedules[0], machine);
        Estimate result{.seconds = step.seconds,
                        .busy_seconds = step.busy_seconds,
                        .demand = step.demand,
                        .activation_file_bytes = set.activation_file_bytes()};
        for (size_t tier = 0; tier < kTierKinds; ++tier) {
            result.arena_bytes[tier] = alive_bytes(set, static_cast<TierKind>(tier));
            gaps[tier] = set.arena_bytes[tier] - result.arena_bytes[tier];
        }
        return result;
    };
    const int layers = layer_count(model), repeats = layer_period(model);
    const Depths depths = depths_for(layers, plan_for(layers + 2), std::lcm(period, std::max(1, repeats)));
    Estimate result;
    if (layers <= depths.more || repeats == 0) {  // of layers that differ a few say nothing
        result = evaluate(model);
    } else {
        const Line line{static_cast<double>(layers - depths.few) / (depths.more - depths.few)};
        const Estimate few = evaluate(shortened(model, depths.few));
        result = line(few, evaluate(shortened(model, depths.more)));
    }
    for (size_t tier = 0; tier < kTierKinds; ++tier) result.arena_bytes[tier] += gaps[tier];
    return result;
}

}  // namespace windlass
