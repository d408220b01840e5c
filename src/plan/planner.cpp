#include "plan/planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "base/math.h"
#include "base/units.h"
#include "plan/binding.h"
#include "plan/needs.h"
#include "plan/parts.h"
#include "plan/policy_search.h"
#include "plan/refusal.h"
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

// Only methods that probe compute with perturbed weights; others with weights that are kept in few bits.
std::string tag_row(MemoryTag tag, bool probes) {
    return tag == MemoryTag::probes && !probes ? "decoded weights" : std::string(memory_tag_name(tag));
}

void fill_placement(Planned& planned, const PlanRequest& request, bool probes, int64_t store, int64_t spill) {
    const bool apart = planned.plan.own_memory();
    const std::vector<TierId>& tiers = planned.schedules.tiers;
    const auto device =
        peak_by_tag(planned.schedules, find_tier(tiers, tier_beside(TierKind::device, planned.plan.device.index)));
    const auto host =
        peak_by_tag(planned.schedules, find_tier(tiers, tier_beside(TierKind::host, planned.plan.device.index)));
    int64_t host_named = 0, device_named = 0;
    for (size_t tag = 0; tag < kMemoryTags; ++tag) {
        const int64_t near = apart ? host[tag] : device[tag], own = apart ? device[tag] : 0;
        host_named += near;
        device_named += own;
        if (near + own > 0) planned.placement.push_back({tag_row(static_cast<MemoryTag>(tag), probes), near, own, 0});
    }
    const auto arena = planned.schedules.by_kind(planned.schedules.arena_bytes);
    const int64_t near = arena[slot(apart ? TierKind::host : TierKind::device)];
    const int64_t own = apart ? arena[slot(TierKind::device)] : 0;
    // The gaps between buffers, so that the rows add up to the peak.
    planned.placement.push_back({"fragmentation", near - host_named, own - device_named, 0});
    planned.placement.push_back({"program and libraries", request.budgets.process, 0, 0});
    if (store > 0 && request.budgets.exporter > 0)
        planned.placement.push_back({"export during the steps", request.budgets.exporter, 0, 0});
    if (store > 0) planned.placement.push_back({"working store, two versions", 0, 0, store});
    if (spill > 0) planned.placement.push_back({"gradients and activations on their way", 0, 0, spill});
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
    // Simulated like the step. Priced by memory traffic alone, a clipped step of SmolLM2-135M over a link of 100 MB/s
    // was predicted at 6.6 s and took 9.1 s, since a redo sends all weights up again.
    if (const Schedule* redo = planned.schedules.find("redo")) planned.redo_seconds = simulate(*redo, machine).seconds;
    for (const Schedule& schedule : planned.schedules.schedules) {
        if (schedule.is_phase) planned.phase_seconds = simulate(schedule, machine).seconds;
    }
    planned.mean_seconds = planned.step.seconds + request.clip_frequency * planned.redo_seconds;
    fill_placement(planned, request, recipe.probes(), total.store, total.spill);
    return planned;
}

namespace {

// All searches of one question.
class Searches {
  public:
    explicit Searches(const PlanQuestion& question)
        : in_(question),
          ranks_(
              rank_saved(in_.model, largest_request(in_.request), in_.request.device.kind, in_.numerics, in_.machine)),
          parts_(parts_of(in_.model, in_.recipe, in_.request, ranks_)) {
        // What is planned for a machine that is not here runs there.
        if (in_.request.device.kind != DeviceKind::fake)
            require_kernels(in_.model, in_.recipe, in_.request.device.kind);
        for (const Part& part : parts_)
            searches_.push_back(std::make_unique<PolicySearch>(in_, ranks_, *part.policy, part.space));
    }

    bool fit_nothing() {
        return std::ranges::all_of(searches_, [](const auto& search) { return search->fits_nothing(); });
    }
    LookResult look(const Rival& rival, Look kind) {
        LookResult best;
        for (const auto& search : searches_) {
            LookResult found = search->look(rival, kind);
            best.seconds = std::min(best.seconds, found.seconds);
            best.fits_all = best.fits_all && found.fits_all;
            if (!found.planned) continue;
            if (!best.planned || found.planned->mean_seconds < best.planned->mean_seconds)
                best.planned = std::move(found.planned);
        }
        return best;
    }
    std::optional<Planned> run() {
        std::optional<Planned> best;
        for (size_t index = 0; index < searches_.size(); ++index) {
            PolicySearch& search = *searches_[index];
            // The cheapest reason first: neither of these lowers a schedule.
            if (search.has_no_disk() || search.is_hopeless()) continue;
            // Its writes to the drives alone, or its gradients on the way down, take longer than the best plan's step.
            if (best && best->mean_seconds <= search.least_seconds()) continue;
            if (search.fits_nothing()) continue;
            std::optional<Planned> found = search.run(best);
            // More blocks stay on the device only where that is worth something.
            const double gain = parts_[index].moves_most ? 0 : kWorthwhile;
            if (found && (!best || found->mean_seconds < best->mean_seconds * (1 - gain))) best = std::move(found);
        }
        return best;
    }
    Planned finish(Planned planned) const {
        for (const auto& search : searches_) planned.evaluations += search->evaluations();
        // Only for the plan that is taken: it simulates the step several times.
        planned.binding = find_binding(planned, in_.machine);
        return planned;
    }
    NoFit refusal() {
        std::vector<Refused> refused;
        for (const auto& search : searches_) {
            if (search->evaluations() == 0) search->look_around();
            search->report(refused);
        }
        const bool shrinks =
            std::ranges::any_of(searches_, [](const auto& search) { return search->fits_smaller_steps(); });
        return nearest_fit(refused, in_.request, in_.machine, shrinks);
    }

  private:
    const PlanQuestion in_;
    const SavedRanks ranks_;
    const std::vector<Part> parts_;
    std::vector<std::unique_ptr<PolicySearch>> searches_;
};

}  // namespace

PlanOutcome find_plan(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                      const PlanRequest& request, const std::optional<Rival>& rival) {
    Searches searches({model, recipe, numerics, machine, request});
    if (rival || request.start) {
        constexpr double kNoTime = std::numeric_limits<double>::infinity();
        LookResult look =
            searches.look(rival ? *rival : Rival{request.start->policy, request.start->choice, kNoTime}, Look::first);
        if (look.planned) return searches.finish(std::move(*look.planned));
        return NoFit{.slower_seconds = rival && look.fits_all && std::isfinite(look.seconds) ? look.seconds : 0};
    }
    std::optional<Planned> best = searches.run();
    if (!best) return searches.refusal();
    // Under these very limits, which are no rung's.
    LookResult last = searches.look({best->plan.policy, best->choice, best->mean_seconds}, Look::last);
    return searches.finish(std::move(last.planned ? *last.planned : *best));
}

std::optional<NoFit> refuse_early(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics,
                                  const Machine& machine, const PlanRequest& request) {
    Searches searches({model, recipe, numerics, machine, request});
    if (!searches.fit_nothing()) return std::nullopt;
    return searches.refusal();
}

Planned make_plan(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                  const PlanRequest& request, const std::function<void(NoFit& none)>& explain) {
    PlanOutcome outcome = find_plan(model, recipe, numerics, machine, request);
    if (auto* none = std::get_if<NoFit>(&outcome)) {
        if (explain) explain(*none);
        throw none->error();
    }
    return std::get<Planned>(std::move(outcome));
}

}  // namespace windlass
