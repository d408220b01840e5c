#include "plan/policy_search.h"

#include <algorithm>
#include <cmath>

#include "plan/needs.h"
#include "schedule/layout.h"

namespace windlass {
namespace {

constexpr int kFittingMax = 4;                           // that are lowered whole and compared
constexpr int kLoweredAtSight = 4, kFittingAtSight = 1;  // the same of a first look, and how many are lowered for them
constexpr double kErrorMax = 1.01;                       // of an estimated time
// Than what is known. What is a little slower at first sight may become the fastest.
constexpr double kFarSlower = 1.5;
constexpr double kBound = 0.7;                     // of a step
constexpr double kPromising = 0.02, kNear = 0.05;  // of a rival's step
constexpr int kSlackMax = 2;

// Of one version in the store: weights, low halves and state, each chunk on whole blocks.
int64_t version_bytes(const Recipe& recipe, const Param& param) {
    const int64_t rest = param.numel() % kChunkElements, full = param.numel() - rest;
    return kept_offset(recipe, param, full) + (rest > 0 ? kept_bytes(recipe, param, full, rest) : 0);
}

// The requests that a search evaluates: shorter rows take less of everything. The schedule that takes longest is first,
// because it is the one that is timed.
std::vector<ScheduleRequest> largest_of_each_kind(std::vector<ScheduleRequest> requests) {
    using Kind = ScheduleRequest::Kind;
    std::stable_sort(requests.begin(), requests.end(), [](const ScheduleRequest& a, const ScheduleRequest& b) {
        const bool a_trains = a.kind == Kind::train, b_trains = b.kind == Kind::train;
        return a_trains != b_trains ? a_trains : a.rows * a.sequence_length > b.rows * b.sequence_length;
    });
    std::vector<ScheduleRequest> largest;
    for (const ScheduleRequest& request : requests) {
        const bool is_known = std::any_of(largest.begin(), largest.end(), [&](const ScheduleRequest& each) {
            return each.kind == request.kind && request.kind != Kind::decode;
        });
        if (!is_known) largest.push_back(request);
    }
    return largest;
}

}  // namespace

PolicySearch::PolicySearch(const PlanQuestion& question, const SavedRanks& ranks, const Policy& policy, Space space)
    : in_(question),
      ranks_(ranks),
      policy_(policy),
      space_(std::move(space)),
      store_bytes_(space_.base.store ? working_store_bytes(in_.model, in_.recipe) : 0),
      limits_(limits_of(in_.request.budgets)),
      estimate_(in_.model, in_.recipe, in_.numerics, in_.machine, largest_of_each_kind(in_.request.schedules)),
      evaluate_(ChoiceCosts{.whole = [this](const Choice& choice) { return timed(choice); },
                            .bytes = [this](const Choice& choice) { return sized(choice); },
                            .least = [this](const Choice& choice) { return least(choice); },
                            .canonical = [this](const Choice& choice) { return space_.canonical(choice); }}) {}

// By what outlives its schedules alone: what passes take may be less of one memory in other choices.
bool PolicySearch::is_hopeless() {
    const Plan& leanest = plan(space_.leanest());
    const Evaluation needs = against(with_arena(leanest, estimate_.persistent_bytes(leanest)), limits_);
    return needs.memory_over > 0 || needs.device_over > 0;
}

bool PolicySearch::fits_smaller_steps() {
    if (has_no_disk() || least_written() > static_cast<double>(limits_.writes)) return false;
    std::vector<ScheduleRequest> requests = in_.request.schedules;
    for (ScheduleRequest& request : requests) request.cache_capacity = 0;
    const Plan& leanest = plan(space_.leanest());
    return against(with_arena(leanest, persistent_bytes(in_.model, in_.recipe, in_.numerics, leanest, requests)),
                   limits_)
        .fits();
}

// Evaluations made here do not count as the search's, which evaluates the same choices under any budget.
bool PolicySearch::fits_nothing() {
    if (has_no_disk() || is_hopeless()) return true;
    if (against(evaluate_.bytes(space_.leanest()), limits_).fits()) return false;
    Evaluator scout = evaluate_;
    if (anything_fits(space_, scout, limits_)) return false;
    evaluate_ = std::move(scout);
    return true;
}

double PolicySearch::least_written() const {
    if (!space_.base.store || !in_.recipe.runs(PassKind::backward)) return 0;
    double written = 0;
    for (const Param param : in_.model.all_params()) {
        if (param.trains()) written += static_cast<double>(version_bytes(in_.recipe, param));
    }
    return written;
}

double PolicySearch::least_seconds() const {
    if (!in_.recipe.runs(PassKind::backward)) return 0;
    double down = 0;
    for (const Param param : in_.model.all_params()) {
        if (!param.trains()) continue;
        if (!in_share(param.spec.block, space_.of(Knob::resident).front(), kResidentShares))
            down += static_cast<double>(gradient_bytes(in_.numerics.gradient_format, param.numel()));
    }
    const auto seconds = [](bool moves, double bytes, double rate) { return moves && rate > 0 ? bytes / rate : 0; };
    return std::max(
        seconds(space_.base.store, least_written(), in_.machine.disk_write_bytes_per_s),
        seconds(space_.base.own_memory() && space_.near != Home::device, down, in_.machine.link_down_bytes_per_s));
}

void PolicySearch::look_around() {
    if (has_no_disk())
        evaluate_.bytes(space_.leanest());
    else
        look_for_nearest(space_, evaluate_, limits_);
}

std::optional<Planned> PolicySearch::run(const std::optional<Planned>& known) {
    if (known && fastest_at_first_sight(space_, evaluate_).seconds > known->mean_seconds * kFarSlower)
        return std::nullopt;
    const double known_seconds = known ? known->mean_seconds : std::numeric_limits<double>::infinity();
    // What each step writes to a drive may be less in a choice that is as fast: with a store there is more to find.
    if (!space_.base.store && against(fastest_without_limits(space_, evaluate_), limits_).fits()) {
        const std::vector<Choice> found = fitting(evaluate_, limits_);
        std::optional<Planned> best = fastest_of(found, known_seconds);
        if (best || evaluate_(found.front()).seconds >= known_seconds) return best;
    }
    return fastest_of(search(space_, evaluate_, limits_), known_seconds);
}

// Whether a first look leaves out its second start, if the first one led to a step of these seconds. With a store, a
// known plan leads near the best. For fewer rows it does, too, if most of the step is what no choice does without.
bool PolicySearch::is_enough(double seconds, const Rival& rival) const {
    if (std::isinf(rival.seconds)) return space_.base.store && policy_.name == rival.policy;
    const bool is_bound = least_seconds() > kBound * seconds;
    return seconds > rival.seconds * (is_bound ? 1 - kPromising : 1 + kNear);
}

LookResult PolicySearch::look(const Rival& rival, Look kind) {
    LookResult look;
    if (has_no_disk() || is_hopeless() || least_seconds() >= rival.seconds) return look;
    look.fits_all = false;
    std::vector<Choice> starts = {space_.leanest(), space_.richest()};
    if (policy_.name == rival.policy) starts[0] = rival.choice;
    for (Choice start : starts) {
        // The rival may be of another share of resident blocks, and this space has one share only.
        at(start, Knob::resident) = space_.of(Knob::resident)[0];
        const Evaluation found = against(evaluate_(descend_from(start, space_, evaluate_, limits_)), limits_);
        if (!found.fits()) continue;
        look.fits_all = true;
        look.seconds = std::min(look.seconds, found.seconds);
        if (kind == Look::first && is_enough(look.seconds, rival)) break;
    }
    if (look.seconds <= rival.seconds * kErrorMax)
        look.planned = fastest_of(fitting(evaluate_, limits_), rival.seconds, kind == Look::first);
    return look;
}

void PolicySearch::report(std::vector<Refused>& refused) const {
    for (const auto& [choice, evaluation] : evaluate_.sized())
        refused.push_back({policy_.name, at(choice, Knob::keep) == 0, against(evaluation, limits_)});
}

// The fastest of the first that fit when all of them is lowered: estimates of time and peak may be a little off.
std::optional<Planned> PolicySearch::fastest_of(const std::vector<Choice>& choices, double known_seconds,
                                                bool at_sight) {
    const int fitting_max = at_sight ? kFittingAtSight : kFittingMax;
    std::optional<Planned> best;
    int fitting = 0, lowered = 0;
    for (const Choice& choice : choices) {
        if (fitting == fitting_max || (at_sight && lowered == kLoweredAtSight)) break;
        // They come with the fastest first: all later ones are slower still.
        if (evaluate_(choice).seconds > known_seconds * kErrorMax) break;
        if (!lowered_.insert(choice).second) continue;
        ++lowered;
        Planned planned = evaluate_plan(in_.model, in_.recipe, in_.numerics, in_.machine, in_.request, plan(choice));
        planned.choice = choice;
        if (!against(exact(planned), limits_).fits()) continue;
        ++fitting;
        if (planned.mean_seconds >= known_seconds) continue;
        known_seconds = planned.mean_seconds;
        best = std::move(planned);
    }
    return best;
}

// Asked for several times in a row, of the same choice.
const Plan& PolicySearch::plan(const Choice& choice) {
    if (!last_plan_ || last_plan_->first != choice)
        last_plan_ = {choice, plan_of(space_, choice, ranks_, programs_of(in_.model))};
    return last_plan_->second;
}

Evaluation PolicySearch::least(const Choice& choice) {
    const Plan& made = plan(choice);
    return with_arena(made, estimate_.least_bytes(made));
}

Evaluation PolicySearch::with_arena(const Plan& plan, const std::array<int64_t, kTierKinds>& bytes) const {
    return evaluation_of(in_.model, in_.numerics, in_.request, plan,
                         {.arena_bytes = bytes, .store_bytes = store_bytes_});
}

Evaluation PolicySearch::exact(const Planned& planned) const {
    return evaluation_of(in_.model, in_.numerics, in_.request, planned.plan,
                         {.seconds = planned.step.seconds,
                          .redo_seconds = planned.redo_seconds,
                          .arena_bytes = planned.schedules.by_kind(planned.schedules.arena_bytes),
                          .store_bytes = store_bytes_,
                          .activation_file_bytes = planned.schedules.activation_file_bytes(),
                          .disk_write_bytes = planned.step.demand.disk_write_bytes});
}

Evaluation PolicySearch::sized(const Choice& choice) {
    if (in_.request.should_stop && in_.request.should_stop()) throw PlanStopped();
    const auto plan_for = [&](int blocks) {
        return blocks == std::ssize(in_.model.blocks) ? plan(choice)
                                                      : plan_of(space_, choice, ranks_, programs_of(in_.model, blocks));
    };
    last_ = {choice, estimate_.size(plan_for, period_of(choice))};
    return evaluation(choice, last_->second.estimate);
}

Evaluation PolicySearch::timed(const Choice& choice) {
    if (!last_ || last_->first != choice) sized(choice);
    const Estimate found = estimate_.time(std::move(last_->second));
    last_.reset();
    return evaluation(choice, found);
}

Evaluation PolicySearch::evaluation(const Choice& choice, const Estimate& found) {
    const Plan& whole = plan(choice);
    Evaluation evaluation = evaluation_of(in_.model, in_.numerics, in_.request, whole,
                                          {.seconds = found.seconds,
                                           .redo_seconds = found.redo_seconds,
                                           .arena_bytes = found.arena_bytes,
                                           .store_bytes = store_bytes_,
                                           .activation_file_bytes = found.activation_file_bytes,
                                           .disk_write_bytes = found.demand.disk_write_bytes});
    evaluation.slack = std::min(whole.read_ahead, kSlackMax) + std::min(whole.update_ahead, kSlackMax);
    return evaluation;
}

}  // namespace windlass
