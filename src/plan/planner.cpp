#include "plan/planner.h"

#include <algorithm>
#include <memory>

#include "base/math.h"
#include "base/units.h"
#include "plan/binding.h"
#include "plan/estimate.h"
#include "plan/parts.h"
#include "plan/refusal.h"
#include "plan/search.h"
#include "schedule/layout.h"

namespace windlass {

const Schedule& leading_schedule(const ScheduleSet& set) {
    const auto larger = [](const Schedule& a, const Schedule& b) {
        const bool a_trains = a.name.starts_with("train"), b_trains = b.name.starts_with("train");
        return a_trains != b_trains ? b_trains : a.size.tokens() < b.size.tokens();
    };
    return *std::max_element(set.schedules.begin(), set.schedules.end(), larger);
}

namespace {

// Of one version in the store: weights, low halves and state, each chunk on whole blocks.
int64_t version_bytes(const Recipe& recipe, const Param& param) {
    const int64_t rest = param.numel() % kChunkElements, full = param.numel() - rest;
    return kept_offset(recipe, param, full) + (rest > 0 ? kept_bytes(recipe, param, full, rest) : 0);
}

// The file has room for the gradients of all that is trained as soon as one block's go there.
int64_t gradient_spill_bytes(const TrainedModel& model, const Numerics& numerics, const Plan& plan) {
    int64_t bytes = 0;
    bool spills = false;
    for (const Param param : model.all_params()) {
        if (!param.trains()) continue;
        bytes += gradient_param_bytes(numerics.gradient_format, param.numel());
        spills = spills || plan.of(param.spec.block).gradients == Home::disk;
    }
    return spills ? bytes : 0;
}

void fill_placement(Planned& planned, const PlanRequest& request, int64_t store, int64_t spill) {
    const bool apart = planned.plan.own_memory();
    const std::vector<TierId>& tiers = planned.schedules.tiers;
    const auto device = peak_by_tag(planned.schedules, find_tier(tiers, TierKind::device));
    const auto host = peak_by_tag(planned.schedules, find_tier(tiers, TierKind::host));
    int64_t host_named = 0, device_named = 0;
    for (size_t tag = 0; tag < kMemoryTags; ++tag) {
        const int64_t near = apart ? host[tag] : device[tag], own = apart ? device[tag] : 0;
        host_named += near;
        device_named += own;
        if (near + own > 0)
            planned.placement.push_back({std::string(memory_tag_name(static_cast<MemoryTag>(tag))), near, own, 0});
    }
    const auto arena = planned.schedules.by_kind(planned.schedules.arena_bytes);
    const int64_t near = arena[slot(apart ? TierKind::host : TierKind::device)];
    const int64_t own = apart ? arena[slot(TierKind::device)] : 0;
    planned.placement.push_back({"fragmentation", near - host_named, own - device_named, 0});
    planned.placement.push_back({"program and libraries", request.budgets.process, 0, 0});
    if (store > 0 && request.budgets.exporter > 0)
        planned.placement.push_back({"export during the steps", request.budgets.exporter, 0, 0});
    if (store > 0) planned.placement.push_back({"working store, two versions", 0, 0, store});
    if (spill > 0) planned.placement.push_back({"gradients and activations on their way", 0, 0, spill});
}

// What a plan takes, known from its schedules or estimated.
struct Needs {
    double seconds = 0, redo_seconds = 0;
    std::array<int64_t, kTierKinds> arena_bytes{};
    int64_t store_bytes = 0;  // where the plan has a store
    int64_t activation_file_bytes = 0;
    int64_t disk_write_bytes = 0;
};

// Bytes by place, as Planned has them.
struct Totals {
    int64_t memory = 0, device = 0, store = 0, spill = 0;
};
Totals totals(const TrainedModel& model, const Numerics& numerics, const PlanRequest& request, const Plan& plan,
              const Needs& needs) {
    const bool apart = plan.own_memory();
    return {.memory = needs.arena_bytes[slot(apart ? TierKind::host : TierKind::device)] + request.budgets.process +
                      (plan.store ? request.budgets.exporter : 0),
            .device = apart ? needs.arena_bytes[slot(TierKind::device)] : 0,
            .store = plan.store ? needs.store_bytes : 0,
            .spill = gradient_spill_bytes(model, numerics, plan) + needs.activation_file_bytes};
}

Evaluation evaluation_of(const TrainedModel& model, const Numerics& numerics, const PlanRequest& request,
                         const Plan& plan, const Needs& needs) {
    const Totals total = totals(model, numerics, request, plan, needs);
    return {.seconds = needs.seconds + request.clip_frequency * needs.redo_seconds,
            .memory_bytes = total.memory,
            .device_bytes = total.device,
            .disk_bytes = total.store + total.spill,
            .write_bytes = needs.disk_write_bytes};
}

Limits limits_of(const Budgets& budgets) {
    return {.memory = budgets.ram,
            .device = budgets.device,
            .disk = budgets.disk,
            .writes = budgets.step_disk_writes > 0 ? budgets.step_disk_writes : Limits::kNone};
}

}  // namespace

Planned evaluate_plan(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                      const PlanRequest& request, const Plan& plan) {
    Planned planned;
    planned.plan = plan;
    planned.schedules = lower(model, recipe, numerics, plan, request.schedules);
    check(planned.schedules);
    const Totals total = totals(model, numerics, request, plan,
                                {.arena_bytes = planned.schedules.by_kind(planned.schedules.arena_bytes),
                                 .store_bytes = plan.store ? working_store_bytes(model, recipe) : 0,
                                 .activation_file_bytes = planned.schedules.activation_file_bytes()});
    planned.device_bytes = total.device;
    planned.memory_bytes = total.memory;
    planned.disk_bytes = total.store + total.spill;
    planned.step = simulate(leading_schedule(planned.schedules), machine);
    if (const Schedule* redo = planned.schedules.find("redo")) planned.redo_seconds = simulate(*redo, machine).seconds;
    for (const Schedule& schedule : planned.schedules.schedules) {
        if (!schedule.refreshes.empty()) planned.refresh_seconds = simulate(schedule, machine).seconds;
    }
    planned.mean_seconds = planned.step.seconds + request.clip_frequency * planned.redo_seconds;
    fill_placement(planned, request, total.store, total.spill);
    return planned;
}

namespace {

// What a search looks at of these: shorter rows take less of everything. The schedule that takes longest stands first:
// it is the one that is timed.
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

// One search, over one policy's space under one such share.
class PolicySearch {
  public:
    PolicySearch(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                 const PlanRequest& request, const SavedRanks& ranks, const Policy& policy, Space space)
        : model_(model),
          recipe_(recipe),
          numerics_(numerics),
          machine_(machine),
          request_(request),
          ranks_(ranks),
          policy_(policy),
          space_(std::move(space)),
          store_bytes_(space_.base.store ? working_store_bytes(model, recipe) : 0),
          estimate_(model, recipe, numerics, machine, largest_of_each_kind(request.schedules)),
          evaluate_([this](const Choice& choice) { return quick(choice); },
                    [this](const Choice& choice) { return least(plan(choice)); },
                    [this](const Choice& choice) { return space_.canonical(choice); }) {}

    bool has_no_disk() const { return store_bytes_ > request_.budgets.disk; }
    // Whether even the leanest choice wants more memory than there is.
    bool is_hopeless() const {
        const Evaluation leanest = against(least(plan(space_.leanest())), limits_of(request_.budgets));
        return leanest.memory_over > 0 || leanest.device_over > 0;
    }
    // No choice takes less: each step writes all that is trained to the store, and brings its gradients down where they
    // are not at home on the device.
    double least_seconds() const {
        if (!recipe_.runs(PassKind::backward)) return 0;
        double written = 0, down = 0;
        for (const Param param : model_.all_params()) {
            if (!param.trains()) continue;
            written += static_cast<double>(version_bytes(recipe_, param));
            if (!in_share(param.spec.block, space_.of(Knob::resident).front()))
                down += static_cast<double>(gradient_bytes(numerics_.gradient_format, param.numel()));
        }
        const auto seconds = [](bool moves, double bytes, double rate) { return moves && rate > 0 ? bytes / rate : 0; };
        return std::max(
            seconds(space_.base.store, written, machine_.disk_write_bytes_per_s),
            seconds(space_.base.own_memory() && space_.near != Home::device, down, machine_.link_down_bytes_per_s));
    }
    // For what a refusal says of a policy that was not searched.
    void look_around() {
        if (has_no_disk())
            evaluate_(space_.leanest());
        else
            look_for_nearest(space_, evaluate_, limits_of(request_.budgets));
    }
    std::optional<Planned> run(const std::optional<Planned>& known) {
        if (known && fastest_at_first_sight(space_, evaluate_).seconds > known->mean_seconds * kFarSlower)
            return std::nullopt;
        const Limits limits = limits_of(request_.budgets);
        std::optional<Planned> best;
        // What each step writes to a drive may be less in a choice that is as fast: with a store there is more to find.
        if (!space_.base.store && against(fastest_without_limits(space_, evaluate_), limits).fits())
            best = fastest_of(fitting(evaluate_, limits), limits);
        return best ? std::move(best) : fastest_of(search(space_, evaluate_, limits), limits);
    }
    // Whether a descent ends at what is faster: from the rival's choice where that is this policy's, and from both
    // ends.
    bool may_beat(const Rival& rival) {
        if (has_no_disk() || is_hopeless() || least_seconds() >= rival.seconds) return false;
        std::vector<Choice> starts = {space_.leanest(), space_.richest()};
        if (policy_.name == rival.policy) starts.push_back(rival.choice);
        const Limits limits = limits_of(request_.budgets);
        return std::ranges::any_of(starts, [&](Choice start) {
            at(start, Knob::resident) = space_.of(Knob::resident)[0];
            const Evaluation found = against(descend_from(start, space_, evaluate_, limits), limits);
            return found.fits() && found.seconds < rival.seconds;
        });
    }
    int evaluations() const { return static_cast<int>(evaluate_.seen().size()); }
    void report(std::vector<Refused>& refused) const {
        for (const auto& [choice, evaluation] : evaluate_.seen())
            refused.push_back(
                {policy_.name, at(choice, Knob::keep) == 0, against(evaluation, limits_of(request_.budgets))});
    }

  private:
    static constexpr int kFittingMax = 4;
    static constexpr double kErrorMax = 1.01;  // of an estimated time
    // Than what is known. What is a little slower at first sight may become the fastest.
    static constexpr double kFarSlower = 1.5;
    static constexpr int kSlackMax = 2;

    // The fastest of the first that fit when all of them is lowered: estimates of time and peak may be a little off.
    std::optional<Planned> fastest_of(const std::vector<Choice>& choices, const Limits& limits) {
        std::optional<Planned> best;
        int fitting = 0;
        for (const Choice& choice : choices) {
            const double estimated = evaluate_(choice).seconds;
            if (fitting == kFittingMax) break;
            if (best && estimated > best->mean_seconds * kErrorMax) break;
            Planned planned = evaluate_plan(model_, recipe_, numerics_, machine_, request_, plan(choice));
            planned.choice = choice;
            if (!against(exact(planned), limits).fits()) continue;
            ++fitting;
            if (!best || planned.mean_seconds < best->mean_seconds) best = std::move(planned);
        }
        return best;
    }
    Plan plan(const Choice& choice) const { return plan_of(space_, choice, ranks_, programs_of(model_)); }
    Evaluation least(const Plan& plan) const {
        return evaluation_of(model_, numerics_, request_, plan,
                             {.arena_bytes = persistent_bytes(model_, recipe_, numerics_, plan, request_.schedules),
                              .store_bytes = store_bytes_});
    }
    Evaluation exact(const Planned& planned) const {
        return evaluation_of(model_, numerics_, request_, planned.plan,
                             {.seconds = planned.step.seconds,
                              .redo_seconds = planned.redo_seconds,
                              .arena_bytes = planned.schedules.by_kind(planned.schedules.arena_bytes),
                              .store_bytes = store_bytes_,
                              .activation_file_bytes = planned.schedules.activation_file_bytes(),
                              .disk_write_bytes = planned.step.demand.disk_write_bytes});
    }
    Evaluation quick(const Choice& choice) {
        if (request_.should_stop && request_.should_stop()) throw PlanStopped();
        const auto plan_for = [&](int blocks) { return plan_of(space_, choice, ranks_, programs_of(model_, blocks)); };
        const Estimate found = estimate_(plan_for, period_of(choice));
        const Plan whole = plan(choice);
        Evaluation evaluation = evaluation_of(model_, numerics_, request_, whole,
                                              {.seconds = found.seconds,
                                               .redo_seconds = found.redo_seconds,
                                               .arena_bytes = found.arena_bytes,
                                               .store_bytes = store_bytes_,
                                               .activation_file_bytes = found.activation_file_bytes,
                                               .disk_write_bytes = found.demand.disk_write_bytes});
        evaluation.slack = std::min(whole.read_ahead, kSlackMax) + std::min(whole.update_ahead, kSlackMax);
        return evaluation;
    }

    const TrainedModel& model_;
    const Recipe& recipe_;
    const Numerics& numerics_;
    const Machine& machine_;
    const PlanRequest& request_;
    const SavedRanks& ranks_;
    const Policy& policy_;
    Space space_;
    int64_t store_bytes_;
    Estimator estimate_;
    Evaluator evaluate_;
};

PlanOutcome refusal_of(const std::vector<std::unique_ptr<PolicySearch>>& searches, const PlanRequest& request) {
    std::vector<Refused> refused;
    for (const std::unique_ptr<PolicySearch>& search : searches) {
        if (search->evaluations() == 0) search->look_around();
        search->report(refused);
    }
    return nearest_fit(refused, request);
}

}  // namespace

PlanOutcome find_plan(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                      const PlanRequest& request, const std::optional<Rival>& rival) {
    // What is planned for a machine that is not here runs there.
    if (request.device.kind != DeviceKind::fake) require_kernels(model, recipe, request.device.kind);
    const SavedRanks ranks = rank_saved(model, largest_request(request), request.device.kind, numerics, machine);
    const std::vector<Part> parts = parts_of(model, recipe, request, ranks);
    const auto search_of = [&](const Part& part) {
        return std::make_unique<PolicySearch>(model, recipe, numerics, machine, request, ranks, *part.policy,
                                              part.space);
    };
    if (rival && std::ranges::none_of(parts, [&](const Part& part) { return search_of(part)->may_beat(*rival); }))
        return NoFit{};
    std::optional<Planned> best;
    int evaluations = 0;
    std::vector<std::unique_ptr<PolicySearch>> searches;
    for (const Part& part : parts) {
        PolicySearch& search = *searches.emplace_back(search_of(part));
        if (search.has_no_disk() || search.is_hopeless()) continue;
        if (best && best->mean_seconds <= search.least_seconds()) continue;
        std::optional<Planned> found = search.run(best);
        // More blocks stay on the device only where that is worth something.
        const double gain = part.moves_most ? 0 : kWorthwhile;
        if (found && (!best || found->mean_seconds < best->mean_seconds * (1 - gain))) best = std::move(found);
        evaluations += search.evaluations();
    }
    if (!best) return refusal_of(searches, request);
    best->evaluations = evaluations;
    best->binding = find_binding(*best, machine);
    return std::move(*best);
}

Planned make_plan(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                  const PlanRequest& request) {
    PlanOutcome outcome = find_plan(model, recipe, numerics, machine, request);
    if (const auto* none = std::get_if<NoFit>(&outcome)) throw none->error();
    return std::get<Planned>(std::move(outcome));
}

}  // namespace windlass
