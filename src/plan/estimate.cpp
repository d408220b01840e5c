#include "plan/estimate.h"

#include <cmath>
#include <limits>
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
constexpr int kFewTurns = 8;  // with more of them a quick estimate of the gaps is a little off
constexpr int kAllTurns = std::numeric_limits<int>::max();

Depths depths_for(int layers, const Plan& plan, int period, int turns_max) {
    constexpr int kFew = 3;  // besides the layers that are read ahead: both ends of a pipeline that is full
    constexpr int kApart = 2;
    const int copies = plan.own_memory() ? std::max(1, plan.upload_ahead) + 1 : 1;
    const int alike = std::lcm(period, copies);
    const int all_turns = std::lcm(alike, std::lcm(plan.read_ahead + 1, plan.update_ahead + 1));
    const int turns = all_turns <= turns_max ? all_turns : alike;
    // Slots that layers go up into in turn are full and in step after two rounds.
    const int rounds = plan.upload_ahead > 0 ? 2 * copies : 0;
    const int apart = round_up(kApart, alike);
    const int least = kFew + plan.read_ahead + rounds + apart;
    const int more = least + (layers - least % turns + turns) % turns;
    return {more - apart, more};
}

}  // namespace

int64_t Estimate::memory_bytes() const {
    return std::accumulate(arena_bytes.begin(), arena_bytes.end(), int64_t{0});
}

Estimator::Estimator(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                     std::vector<ScheduleRequest> requests, Precision precision)
    : model_(model),
      recipe_(recipe),
      numerics_(numerics),
      machine_(machine),
      requests_(std::move(requests)),
      precision_(precision) {}

const TrainedModel& Estimator::short_model(int layers) {
    const auto found = short_models_.find(layers);
    return found != short_models_.end() ? found->second
                                        : short_models_.emplace(layers, shortened(model_, layers)).first->second;
}

Estimator::Peaks Estimator::peaks_of(const ScheduleSet& set) {
    Peaks peaks{.alive_bytes = set.by_kind(alive_bytes(set, set.schedules[0]))};
    const auto transient_bytes = set.by_kind(set.schedules[0].transient_bytes);
    for (size_t tier = 0; tier < kTierKinds; ++tier)
        peaks.gap_bytes[tier] = transient_bytes[tier] - peaks.alive_bytes[tier];
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

Estimator::OtherSchedule Estimator::other_schedule(const Lowered& lowered, const ScheduleRequest& request) {
    const TrainedModel& model = *lowered.model;
    const auto measure = [&] {
        ScheduleSet set = lower_one(model, recipe_, numerics_, lowered.plan, requests_, request);
        place_buffers(set);
        OtherSchedule made{.peaks = peaks_of(set)};
        if (request.kind == ScheduleRequest::Kind::redo) {
            derive_waits(set, set.schedules[0]);
            made.seconds = simulate(set.schedules[0], machine_).seconds;
        }
        return made;
    };
    const bool is_simple = request.kind == ScheduleRequest::Kind::eval ||
                           (!recipe_.probes() && request.kind != ScheduleRequest::Kind::train &&
                            request.kind != ScheduleRequest::Kind::decode);
    if (!is_simple) return measure();
    const std::string key = key_of(lowered.plan, request, static_cast<int>(model.blocks.size()));
    const auto found = known_.find(key);
    return found != known_.end() ? found->second : known_.emplace(key, measure()).first->second;
}

const std::array<int64_t, kTierKinds>& Estimator::persistent_bytes(const Plan& plan) {
    const auto [found, is_new] = known_persistent_.try_emplace(persistent_key(plan));
    if (is_new) found->second = windlass::persistent_bytes(model_, recipe_, numerics_, plan, requests_);
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
    add_other_peaks(lowered);
    return lowered;
}

void Estimator::add_other_peaks(Lowered& lowered) {
    for (size_t index = 1; index < requests_.size(); ++index)
        lowered.peaks.push_back(other_schedule(lowered, requests_[index]).peaks);
    for (const ScheduleRequest& request : update_requests(recipe_, lowered.plan, requests_))
        lowered.peaks.push_back(other_schedule(lowered, request).peaks);
}

Estimator::Lowered Estimator::cut_from(const Lowered& deep, const TrainedModel& model, Plan plan) {
    const Schedule& schedule = deep.set.schedules[0];
    const int layers = layer_count(model), before = layers / 2;
    Lowered few{.model = &model, .plan = std::move(plan)};
    few.cut = cut_layers(deep.set, schedule, *deep.model, 1 + before, layer_count(*deep.model) - layers);
    few.estimate = {.demand = deep.estimate.demand - demand_of(schedule, few.cut),
                    .arena_bytes = windlass::persistent_bytes(model, recipe_, numerics_, few.plan, requests_),
                    .activation_file_bytes = deep.estimate.activation_file_bytes - spilled_bytes(schedule, few.cut)};
    few.peaks.push_back({.alive_bytes = deep.set.by_kind(alive_bytes(deep.set, schedule, few.cut))});
    if (precision_ == Precision::full) {
        add_other_peaks(few);
        return few;
    }
    // Most other schedules use memory layer by layer: as much of it for a few as for many.
    few.peaks.insert(few.peaks.end(), deep.peaks.begin() + 1, deep.peaks.end());
    for (size_t index = 1; index < requests_.size(); ++index) {
        if (requests_[index].kind == ScheduleRequest::Kind::refresh)
            few.peaks[index] = other_schedule(few, requests_[index]).peaks;
    }
    return few;
}

Estimator::Sized Estimator::size(const PlanFor& plan_for, int period) {
    constexpr double kDeeper = 1.25;  // than the short model: a cut costs as much as these layers
    const int layers = layer_count(model_), repeats = layer_period(model_);
    const bool can_cut = requests_[0].kind == ScheduleRequest::Kind::train;
    const bool cuts = can_cut && precision_ == Precision::quick;
    Plan whole = plan_for(layers + 2);
    const Depths depths =
        depths_for(layers, whole, std::lcm(period, std::max(1, repeats)), cuts ? kFewTurns : kAllTurns);
    Sized sized;
    // Both short models together are as much work as one that deep; of layers that differ a few say nothing.
    const double work = cuts ? depths.more * kDeeper : depths.few + depths.more;
    if (layers <= work || repeats == 0) {
        sized.deep = lower_sized(model_, std::move(whole));
        sized.estimate = sized.deep.estimate;
    } else {
        sized.steps = static_cast<double>(layers - depths.few) / (depths.more - depths.few);
        sized.deep = lower_sized(short_model(depths.more), plan_for(depths.more + 2));
        const TrainedModel& few = short_model(depths.few);
        Plan plan = plan_for(depths.few + 2);
        sized.few = can_cut ? cut_from(sized.deep, few, std::move(plan)) : lower_sized(few, std::move(plan));
        sized.estimate = Line{sized.steps}(sized.few->estimate, sized.deep.estimate);
    }
    add_transients(sized);
    return sized;
}

void Estimator::add_transients(Sized& sized) {
    const std::vector<Peaks>& deep = sized.deep.peaks;
    const std::vector<Peaks>& few = sized.few ? sized.few->peaks : deep;
    for (size_t tier = 0; tier < kTierKinds; ++tier) {
        int64_t most = 0;
        for (size_t index = 0; index < deep.size(); ++index) {
            const int64_t alive = Line{sized.steps}(few[index].alive_bytes[tier], deep[index].alive_bytes[tier]);
            most = std::max(most, alive + deep[index].gap_bytes[tier]);
        }
        sized.estimate.arena_bytes[tier] += most;
    }
}

void Estimator::time(Lowered& lowered, const Schedule& schedule) {
    const Simulation step = simulate(schedule, machine_);
    lowered.estimate.seconds = step.seconds;
    lowered.estimate.busy_seconds = step.busy_seconds;
    lowered.estimate.alone_seconds = step.alone_seconds;
    for (const ScheduleRequest& request : update_requests(recipe_, lowered.plan, requests_)) {
        if (request.kind == ScheduleRequest::Kind::redo)
            lowered.estimate.redo_seconds += other_schedule(lowered, request).seconds;
    }
}

void Estimator::time(Lowered& lowered) {
    derive_waits(lowered.set, lowered.set.schedules[0]);
    time(lowered, lowered.set.schedules[0]);
}

void Estimator::time_few(Lowered& few, Schedule& deep) {
    std::vector<Task> tasks;
    if (precision_ == Precision::quick && few.set.schedules.empty()) tasks = tasks_without(deep, few.cut);
    if (tasks.empty()) {
        if (few.set.schedules.empty()) few = lower_sized(*few.model, std::move(few.plan));
        return time(few);
    }
    deep.tasks = std::move(tasks);
    time(few, deep);
}

Estimate Estimator::time(Sized sized) {
    time(sized.deep);
    Estimate result = sized.deep.estimate;
    if (sized.few) {
        time_few(*sized.few, sized.deep.set.schedules[0]);
        result = Line{sized.steps}(sized.few->estimate, result);
    }
    result.arena_bytes = sized.estimate.arena_bytes;
    // A few layers may wait for one lane, all of them for another.
    for (const double seconds : result.alone_seconds) result.seconds = std::max(result.seconds, seconds);
    return result;
}

Estimate estimate(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                  const Estimator::PlanFor& plan_for, const std::vector<ScheduleRequest>& requests, int period,
                  Precision precision) {
    return Estimator(model, recipe, numerics, machine, requests, precision)(plan_for, period);
}

}  // namespace windlass
