#include "plan/estimate.h"

#include <cmath>
#include <numeric>

#include "base/math.h"
#include "model/shortened.h"
#include "schedule/check.h"
#include "schedule/derive_waits.h"
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
                .redo_seconds = line(a.redo_seconds, b.redo_seconds),
                .busy_seconds = line(a.busy_seconds, b.busy_seconds),
                .alone_seconds = line(a.alone_seconds, b.alone_seconds),
                .demand = line(a.demand, b.demand),
                .arena_bytes = line(a.arena_bytes, b.arena_bytes),
                .activation_file_bytes = line(a.activation_file_bytes, b.activation_file_bytes)};
    }
};

// Depths of the two short models. Buffers for what is read, copied or updated ahead take turns, and where the turns
// are at the end of a pass decides how they share addresses: the deeper of the two ends as the whole model does.
struct Depths {
    int few = 0, more = 0;
};

Depths depths_for(int layers, const Plan& plan, int period) {
    constexpr int kFew = 3;  // besides the layers that are read ahead: both ends of a pipeline that is full
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

Estimator::Estimator(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                     std::vector<ScheduleRequest> requests)
    : model_(model), recipe_(recipe), numerics_(numerics), machine_(machine), requests_(std::move(requests)) {}

const TrainedModel& Estimator::short_model(int layers) {
    const auto found = short_models_.find(layers);
    return found != short_models_.end() ? found->second
                                        : short_models_.emplace(layers, shortened(model_, layers)).first->second;
}

Estimator::Peaks Estimator::peaks_of(const ScheduleSet& set) {
    const Schedule& schedule = set.schedules[0];
    const auto transient_bytes = set.by_kind(schedule.transient_bytes);
    Peaks peaks;
    for (size_t tier = 0; tier < kTierKinds; ++tier) {
        std::vector<int64_t> change(schedule.tasks.size() + 2, 0);
        for (const BufferSpec& buffer : schedule.buffers) {
            if (slot(set.tiers[static_cast<size_t>(buffer.tier)].kind) != tier) continue;
            const int64_t bytes = round_up(buffer.bytes, kParamAlignment);
            change[static_cast<size_t>(buffer.first)] += bytes;
            change[static_cast<size_t>(buffer.last) + 1] -= bytes;
        }
        int64_t alive = 0;
        for (const int64_t each : change) peaks.alive_bytes[tier] = std::max(peaks.alive_bytes[tier], alive += each);
        peaks.gap_bytes[tier] = transient_bytes[tier] - peaks.alive_bytes[tier];
    }
    return peaks;
}

namespace {

// All of a plan that evaluation, or updates alone, depend on. Buffers live by the order of tasks, on whatever lanes;
// how long a redo takes is a matter of lanes, too.
std::string key_of(const Plan& plan, const ScheduleRequest& request, int blocks) {
    const bool updates = request.kind == ScheduleRequest::Kind::redo || request.kind == ScheduleRequest::Kind::flush;
    std::string key = fmt::format("{} {} {} {} ", schedule_name(request), request.rows, request.micro_batches, blocks);
    key += updates ? fmt::format("{} {} {}", plan.update_ahead, plan.group_chunks, plan.device_groups)
                   : fmt::format("{}", plan.read_ahead);
    const bool refreshes = request.kind == ScheduleRequest::Kind::refresh;
    if (refreshes) key += fmt::format(" {}", plan.update_ahead);
    if (refreshes || request.kind == ScheduleRequest::Kind::redo)
        key += fmt::format(" {} {}", plan.threads, plan.host_threads);
    for (int block = 0; block < blocks; ++block) {
        const BlockPlan& each = plan.of(block);
        key += fmt::format(" {}{}", static_cast<int>(each.weights), static_cast<int>(each.state));
        if (refreshes) key += fmt::format("{}", static_cast<int>(each.block_input));
        if (updates) key += fmt::format("{}{}", static_cast<int>(each.gradients), static_cast<int>(each.update));
    }
    return key;
}

}  // namespace

Estimator::Peaks Estimator::peaks_beside(const Lowered& lowered, const ScheduleRequest& request) {
    const TrainedModel& model = *lowered.model;
    const auto measure = [&] {
        ScheduleSet set = lower_one(model, recipe_, numerics_, lowered.plan, requests_, request);
        place_buffers(set);
        return peaks_of(set);
    };
    const bool is_simple = request.kind == ScheduleRequest::Kind::eval ||
                           (!recipe_.probes() && request.kind != ScheduleRequest::Kind::train &&
                            request.kind != ScheduleRequest::Kind::decode);
    if (!is_simple) return measure();
    const std::string key = key_of(lowered.plan, request, static_cast<int>(model.blocks.size()));
    const auto found = known_peaks_.find(key);
    return found != known_peaks_.end() ? found->second : known_peaks_.emplace(key, measure()).first->second;
}

double Estimator::redo_seconds(const Lowered& lowered, const ScheduleRequest& request) {
    const std::string key = key_of(lowered.plan, request, static_cast<int>(lowered.model->blocks.size()));
    const auto [found, is_new] = known_seconds_.try_emplace(key, 0);
    if (is_new) {
        ScheduleSet set = lower_one(*lowered.model, recipe_, numerics_, lowered.plan, requests_, request);
        check_each(set);
        found->second = simulate(set.schedules[0], machine_).seconds;
    }
    return found->second;
}

Estimator::Lowered Estimator::lower_sized(const TrainedModel& model, Plan plan) {
    Lowered lowered{.model = &model, .plan = std::move(plan)};
    lowered.set = lower_one(model, recipe_, numerics_, lowered.plan, requests_, requests_[0]);
    place_buffers(lowered.set);
    lowered.estimate = {.demand = total_demand(lowered.set.schedules[0]),
                        .arena_bytes = lowered.set.by_kind(lowered.set.persistent_bytes),
                        .activation_file_bytes = lowered.set.activation_file_bytes()};
    lowered.peaks.push_back(peaks_of(lowered.set));
    for (size_t index = 1; index < requests_.size(); ++index)
        lowered.peaks.push_back(peaks_beside(lowered, requests_[index]));
    for (const ScheduleRequest& request : update_requests(recipe_, lowered.plan, requests_))
        lowered.peaks.push_back(peaks_beside(lowered, request));
    return lowered;
}

void Estimator::time(Lowered& lowered) {
    Schedule& schedule = lowered.set.schedules[0];
    derive_waits(lowered.set, schedule);
    const Simulation step = simulate(schedule, machine_);
    lowered.estimate.seconds = step.seconds;
    lowered.estimate.busy_seconds = step.busy_seconds;
    lowered.estimate.alone_seconds = step.alone_seconds;
    for (const ScheduleRequest& request : update_requests(recipe_, lowered.plan, requests_)) {
        if (request.kind == ScheduleRequest::Kind::redo)
            lowered.estimate.redo_seconds += redo_seconds(lowered, request);
    }
}

Estimator::Sized Estimator::size(const PlanFor& plan_for, int period) {
    const int layers = layer_count(model_), repeats = layer_period(model_);
    Plan whole = plan_for(layers + 2);
    const Depths depths = depths_for(layers, whole, std::lcm(period, std::max(1, repeats)));
    Sized sized;
    // Both short models together are as much work as one that deep; of layers that differ a few say nothing.
    if (layers <= depths.few + depths.more || repeats == 0) {
        sized.models.push_back(lower_sized(model_, std::move(whole)));
    } else {
        sized.steps = static_cast<double>(layers - depths.few) / (depths.more - depths.few);
        for (const int depth : {depths.few, depths.more})
            sized.models.push_back(lower_sized(short_model(depth), plan_for(depth + 2)));
    }
    const Line line{sized.steps};
    const Lowered &few = sized.models.front(), &more = sized.models.back();
    sized.estimate = line(few.estimate, more.estimate);
    for (size_t tier = 0; tier < kTierKinds; ++tier) {
        int64_t most = 0;
        for (size_t index = 0; index < few.peaks.size(); ++index) {
            const Peaks &a = few.peaks[index], &b = more.peaks[index];
            most = std::max(most, line(a.alive_bytes[tier], b.alive_bytes[tier]) + b.gap_bytes[tier]);
        }
        sized.estimate.arena_bytes[tier] += most;
    }
    return sized;
}

Estimate Estimator::time(Sized sized) {
    for (Lowered& model : sized.models) time(model);
    const std::array<int64_t, kTierKinds> arena_bytes = sized.estimate.arena_bytes;
    Estimate result = Line{sized.steps}(sized.models.front().estimate, sized.models.back().estimate);
    result.arena_bytes = arena_bytes;
    // A few layers may wait for one lane, all of them for another.
    for (const double seconds : result.alone_seconds) result.seconds = std::max(result.seconds, seconds);
    return result;
}

Estimate estimate(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                  const Estimator::PlanFor& plan_for, const std::vector<ScheduleRequest>& requests, int period) {
    return Estimator(model, recipe, numerics, machine, requests)(plan_for, period);
}

}  // namespace windlass
