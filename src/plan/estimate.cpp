#include "plan/estimate.h"

#include <cmath>
#include <numeric>

#include "base/math.h"
#include "model/shortened.h"
#include "plan/alive_bytes.h"
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

// Of a short model: layers until a pass is under way, layers that are repeated in place of all others, layers after
// them.
struct Depth {
    int before = 0, alike = 0, after = 0;
    int all() const { return before + alike + after; }
    int few() const { return before + after; }
};

// Where buffers for what is read, copied or updated ahead take turns, the turns at the end of a pass decide how they
// share addresses: the short model ends as the whole one does, unless that takes too many layers.
constexpr int kTurnsMax = 8;

// `chunks`: of a layer, that updates move. In the passes forward what is read ahead must be on its way, in those
// backward what is updated, too; slots that layers go up into in turn are full and in step after two rounds.
Depth depth_for(int layers, const Plan& plan, int period, int chunks) {
    constexpr int kEnds = 2;   // both ends of a pipeline that is full
    constexpr int kAlike = 2;  // what a layer hands on changes places with what it gets
    const int copies = plan.own_memory() ? std::max(1, plan.upload_ahead) + 1 : 1;
    const int alike = std::lcm(period, copies);
    const int turns = std::lcm(alike, std::lcm(plan.read_ahead + 1, plan.update_ahead + 1));
    const int rounds = plan.upload_ahead > 0 ? 2 * copies : 0;
    const int groups = std::max(1, chunks / std::max(1, plan.group_chunks));
    Depth depth{.before = kEnds + plan.read_ahead + rounds,
                .alike = round_up(kAlike, alike),
                .after = kEnds + plan.read_ahead + rounds / 2 + div_up(plan.update_ahead + 1, groups)};
    const int step = std::lcm(turns <= kTurnsMax ? turns : alike, depth.alike);
    depth.after += ((layers - depth.all()) % step + step) % step;
    return depth;
}

int trained_chunks(const TrainedModel& model, int block) {
    int chunks = 0;
    for (const Param param : model.all_params()) {
        if (param.spec.block == block && param.trains())
            chunks += static_cast<int>(div_up(param.numel(), kChunkElements));
    }
    return chunks;
}

}  // namespace

int64_t Estimate::memory_bytes() const {
    return std::accumulate(arena_bytes.begin(), arena_bytes.end(), int64_t{0});
}

Estimator::Estimator(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                     std::vector<ScheduleRequest> requests)
    : model_(model),
      recipe_(recipe),
      numerics_(numerics),
      machine_(machine),
      requests_(std::move(requests)),
      passes_(model, recipe, numerics, requests_[0]),
      layer_chunks_(trained_chunks(model, 1)) {}

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
// A field that is missing here would give a plan the bytes of another one.
std::string key_of(const Plan& plan, const ScheduleRequest& request, int blocks) {
    const bool updates = request.kind == ScheduleRequest::Kind::redo || request.kind == ScheduleRequest::Kind::flush;
    std::string key = fmt::format("{} {} {} {} ", schedule_name(request), request.rows, request.micro_batches, blocks);
    key += updates ? fmt::format("{} {} {}", plan.update_ahead, plan.group_chunks, plan.device_groups)
                   : fmt::format("{}", plan.read_ahead);
    const bool is_phase = request.kind == ScheduleRequest::Kind::phase;
    if (is_phase) key += fmt::format(" {}", plan.update_ahead);
    if (is_phase || request.kind == ScheduleRequest::Kind::redo)
        key += fmt::format(" {} {}", plan.threads, plan.host_threads);
    for (int block = 0; block < blocks; ++block) {
        const BlockPlan& each = plan.of(block);
        key += fmt::format(" {}{}", static_cast<int>(each.weights), static_cast<int>(each.state));
        if (is_phase) key += fmt::format("{}", static_cast<int>(each.block_input));
        if (updates) key += fmt::format("{}{}", static_cast<int>(each.gradients), static_cast<int>(each.update));
    }
    return key;
}

}  // namespace

Estimator::OtherSchedule Estimator::other_schedule(const PlannedModel& planned, const ScheduleRequest& request) {
    const TrainedModel& model = *planned.model;
    const auto measure = [&] {
        ScheduleSet set = lower_one(model, recipe_, numerics_, planned.plan, requests_, request);
        place_buffers(set);
        OtherSchedule made{.peaks = peaks_of(set)};
        // Only a redo adds to the mean step. Others count by their bytes.
        if (request.kind == ScheduleRequest::Kind::redo) {
            derive_waits(set, set.schedules[0]);
            made.seconds = simulate(set.schedules[0], machine_).seconds;
        }
        return made;
    };
    // Decoding, and flushes of forward-only methods, depend on more of a plan than key_of has.
    const bool is_simple = request.kind == ScheduleRequest::Kind::eval ||
                           (!recipe_.probes() && request.kind != ScheduleRequest::Kind::train &&
                            request.kind != ScheduleRequest::Kind::decode);
    if (!is_simple) return measure();
    const std::string key = key_of(planned.plan, request, static_cast<int>(model.blocks.size()));
    const auto found = known_.find(key);
    return found != known_.end() ? found->second : known_.emplace(key, measure()).first->second;
}

const std::array<int64_t, kTierKinds>& Estimator::persistent_bytes(const Plan& plan) {
    const auto [found, is_new] = known_persistent_.try_emplace(persistent_key(plan));
    if (is_new) found->second = windlass::persistent_bytes(model_, recipe_, numerics_, plan, requests_);
    return found->second;
}

std::array<int64_t, kTierKinds> Estimator::least_bytes(const Plan& plan) {
    std::array<int64_t, kTierKinds> bytes = passes_.least(plan);
    for (size_t tier = 0; tier < kTierKinds; ++tier) bytes[tier] += persistent_bytes(plan)[tier];
    return bytes;
}

Estimator::Lowered Estimator::lower_sized(const TrainedModel& model, Plan plan) {
    Lowered lowered{{.model = &model, .plan = std::move(plan)}};
    lowered.set = lower_one(model, recipe_, numerics_, lowered.plan, requests_, requests_[0]);
    place_buffers(lowered.set);
    lowered.estimate = {.demand = total_demand(lowered.set.schedules[0]),
                        .arena_bytes = lowered.set.by_kind(lowered.set.persistent_bytes),
                        .activation_file_bytes = lowered.set.activation_file_bytes()};
    lowered.peaks.push_back(peaks_of(lowered.set));
    for (size_t index = 1; index < requests_.size(); ++index)
        lowered.peaks.push_back(other_schedule(lowered, requests_[index]).peaks);
    for (const ScheduleRequest& request : update_requests(recipe_, lowered.plan, requests_))
        lowered.peaks.push_back(other_schedule(lowered, request).peaks);
    return lowered;
}

Estimator::Sized Estimator::size(const PlanFor& plan_for, int period) {
    const int repeats = layer_period(model_);
    Plan whole = plan_for(layer_count(model_) + 2);
    if (repeats == 0) return size_whole(std::move(whole));  // of layers that differ a few say nothing
    period = std::lcm(period, repeats);
    // Only steps note where they come to each block, and without that no range can be repeated.
    if (requests_[0].kind != ScheduleRequest::Kind::train) return size_by_two(plan_for, std::move(whole), period);
    std::optional<Sized> sized = size_repeated(plan_for, whole, period);
    return sized ? std::move(*sized) : size_whole(std::move(whole));
}

Estimator::Sized Estimator::size_whole(Plan plan) {
    Sized sized{.deep = lower_sized(model_, std::move(plan))};
    sized.estimate = sized.deep.estimate;
    add_transients(sized);
    return sized;
}

// A line through two short models was up to 12 % off in time and 54 % in memory where updates run far ahead. Repeated
// layers are exact in most cases, for half the work.
std::optional<Estimator::Sized> Estimator::size_repeated(const PlanFor& plan_for, const Plan& whole, int period) {
    constexpr double kDeeper = 1.15;  // than the short model: finding and repeating its layers costs as much
    const int layers = layer_count(model_);
    const Depth depth = depth_for(layers, whole, period, layer_chunks_);
    if (layers <= depth.all() * kDeeper) return std::nullopt;
    Sized sized{.deep = lower_sized(short_model(depth.all()), plan_for(depth.all() + 2)),
                .few = Lowered{{.model = &short_model(depth.few()), .plan = plan_for(depth.few() + 2)}},
                .steps = static_cast<double>(layers - depth.few()) / depth.alike};
    const Lowered& deep = sized.deep;
    const Schedule& schedule = deep.set.schedules[0];
    const LayerTasks alike = tasks_of_layers(schedule, 1 + depth.before, depth.alike);
    sized.repeat = LayerRepeat::find(schedule, alike, (layers - depth.all()) / depth.alike);
    if (!sized.repeat) return std::nullopt;
    sized.few->estimate = {
        .demand = deep.estimate.demand - demand_of(schedule, alike),
        .activation_file_bytes = deep.estimate.activation_file_bytes - spilled_bytes(schedule, alike)};
    // Most other schedules use memory layer by layer: as much of it for a few as for many.
    sized.few->peaks = deep.peaks;
    for (size_t index = 1; index < requests_.size(); ++index) {
        if (requests_[index].kind == ScheduleRequest::Kind::phase)
            sized.few->peaks[index] = other_schedule(*sized.few, requests_[index]).peaks;
    }
    sized.estimate = Line{sized.steps}(sized.few->estimate, deep.estimate);
    sized.estimate.arena_bytes = persistent_bytes(whole);
    add_transients(sized);
    return sized;
}

Estimator::Sized Estimator::size_by_two(const PlanFor& plan_for, Plan whole, int period) {
    const int layers = layer_count(model_);
    const Depth depth = depth_for(layers, whole, period, layer_chunks_);
    // Both short models together would be as deep as the whole one, and the result still an estimate.
    if (layers <= depth.few() + depth.all()) return size_whole(std::move(whole));
    Sized sized{.deep = lower_sized(short_model(depth.all()), plan_for(depth.all() + 2)),
                .few = lower_sized(short_model(depth.few()), plan_for(depth.few() + 2)),
                .steps = static_cast<double>(layers - depth.few()) / depth.alike};
    sized.estimate = Line{sized.steps}(sized.few->estimate, sized.deep.estimate);
    add_transients(sized);
    return sized;
}

void Estimator::add_transients(Sized& sized) {
    const std::vector<Peaks>& deep = sized.deep.peaks;
    const std::vector<Peaks>& few = sized.few ? sized.few->peaks : deep;
    std::array<int64_t, kTierKinds> step{};
    if (sized.repeat)
        step = sized.deep.set.by_kind(sized.repeat->alive_bytes(sized.deep.set, sized.deep.set.schedules[0]));
    for (size_t tier = 0; tier < kTierKinds; ++tier) {
        int64_t most = 0;
        // Schedules share their addresses, so the largest counts.
        for (size_t index = 0; index < deep.size(); ++index) {
            const int64_t alive = index == 0 && sized.repeat
                                      ? step[tier]
                                      : Line{sized.steps}(few[index].alive_bytes[tier], deep[index].alive_bytes[tier]);
            most = std::max(most, alive + deep[index].gap_bytes[tier]);
        }
        sized.estimate.arena_bytes[tier] += most;
    }
}

double Estimator::redo_seconds(const PlannedModel& planned) {
    double seconds = 0;
    for (const ScheduleRequest& request : update_requests(recipe_, planned.plan, requests_)) {
        if (request.kind == ScheduleRequest::Kind::redo) seconds += other_schedule(planned, request).seconds;
    }
    return seconds;
}

void Estimator::time(Lowered& lowered) {
    const Simulation step = simulate(lowered.set.schedules[0], machine_);
    lowered.estimate.seconds = step.seconds;
    lowered.estimate.busy_seconds = step.busy_seconds;
    lowered.estimate.alone_seconds = step.alone_seconds;
}

Estimate Estimator::time(Sized sized) {
    Lowered& deep = sized.deep;
    Schedule& schedule = deep.set.schedules[0];
    derive_waits(deep.set, schedule);
    if (sized.repeat) schedule.tasks = sized.repeat->tasks(schedule);
    time(deep);
    deep.estimate.redo_seconds = redo_seconds(deep);
    Estimate result = deep.estimate;
    if (sized.few) {
        Lowered& few = *sized.few;
        few.estimate.redo_seconds = redo_seconds(few);
        if (!sized.repeat) {
            derive_waits(few.set, few.set.schedules[0]);
            time(few);
        }
        result = Line{sized.steps}(few.estimate, deep.estimate);
    }
    if (sized.repeat) {
        result.seconds = deep.estimate.seconds;
        result.busy_seconds = deep.estimate.busy_seconds;
        result.alone_seconds = deep.estimate.alone_seconds;
    }
    result.arena_bytes = sized.estimate.arena_bytes;
    // A few layers may wait for one lane, all of them for another.
    for (const double seconds : result.alone_seconds) result.seconds = std::max(result.seconds, seconds);
    return result;
}

Estimate estimate(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                  const Estimator::PlanFor& plan_for, const std::vector<ScheduleRequest>& requests, int period) {
    return Estimator(model, recipe, numerics, machine, requests)(plan_for, period);
}

}  // namespace windlass
