#include "plan/planner.h"

#include <algorithm>
#include <optional>

#include "base/math.h"
#include "base/units.h"
#include "schedule/layout.h"

namespace windlass {
namespace {

// What one candidate costs.
struct Candidate {
    Planned planned;
    int64_t memory_over = 0;  // bytes above the budgets; both zero when it fits
    int64_t disk_over = 0;
    bool fits() const { return memory_over == 0 && disk_over == 0; }
};

// Two versions of weights, low halves and state, each chunk on whole blocks; the commit records are small beside it.
int64_t working_store_bytes(const ModelSpec& model, const Recipe& recipe) {
    constexpr int64_t kRecords = 8 * kMiB;
    int64_t bytes = kRecords;
    for (size_t param = 0; param < model.params.size(); ++param) {
        for (const ChunkSpan& chunk : chunks_of(model, static_cast<int>(param))) {
            bytes += 2 * (aligned_bytes(chunk.count, 2) +
                          round_up(state_sections(recipe, chunk.count).back(), kParamAlignment));
        }
    }
    return bytes;
}

int64_t gradient_spill_bytes(const ModelSpec& model) {
    int64_t bytes = 0;
    for (const ParamSpec& param : model.params) bytes += aligned_bytes(param.numel(), 4);
    return bytes;
}

const Schedule& leading_schedule(const ScheduleSet& set) {
    const auto larger = [](const Schedule& a, const Schedule& b) {
        const bool a_trains = a.name.starts_with("train"), b_trains = b.name.starts_with("train");
        return a_trains != b_trains ? b_trains : a.size.tokens() < b.size.tokens();
    };
    return *std::max_element(set.schedules.begin(), set.schedules.end(), larger);
}

void fill_placement(Planned& planned, const PlanRequest& request, int64_t store, int64_t spill) {
    const std::array<int64_t, kOwners> owners = peak_by_owner(planned.schedules);
    int64_t named = 0;
    for (int owner = 0; owner < kOwners; ++owner) {
        const int64_t bytes = owners[static_cast<size_t>(owner)];
        if (bytes > 0) planned.placement.push_back({std::string(owner_name(static_cast<Owner>(owner))), bytes, 0});
        named += bytes;
    }
    planned.placement.push_back({"gaps and alignment", planned.schedules.arena_bytes - named, 0});
    planned.placement.push_back({"process", request.budgets.process, 0});
    if (store > 0) planned.placement.push_back({"working store, two versions", 0, store});
    if (spill > 0) planned.placement.push_back({"gradients on their way", 0, spill});
}

Candidate evaluate(const ModelSpec& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                   const PlanRequest& request, const Plan& plan) {
    Candidate candidate;
    Planned& planned = candidate.planned;
    planned.plan = plan;
    planned.schedules = lower(model, recipe, numerics, plan, request.schedules);
    check(planned.schedules);
    const int64_t store = plan.uses_disk() ? working_store_bytes(model, recipe) : 0;
    const int64_t spill = plan.gradients == Home::disk ? gradient_spill_bytes(model) : 0;
    planned.memory_bytes = planned.schedules.arena_bytes + request.budgets.process;
    planned.disk_bytes = store + spill;
    planned.step = simulate(leading_schedule(planned.schedules), machine);
    fill_placement(planned, request, store, spill);
    candidate.memory_over = std::max<int64_t>(0, planned.memory_bytes - request.budgets.ram);
    candidate.disk_over = std::max<int64_t>(0, planned.disk_bytes - request.budgets.disk);
    return candidate;
}

// A printed size that is enough when it is given back to us: rounding to what is printed must not take from it.
std::string enough(int64_t bytes) {
    return format_bytes(bytes + bytes / 200);
}

std::string describe(const Planned& planned) {
    const Plan& plan = planned.plan;
    return fmt::format("--policy {}{}", plan.policy, plan.recompute ? " --gradient-checkpointing true" : "");
}

// The refusal names the cheapest candidate in memory, and what it would take.
[[noreturn]] void refuse(const std::vector<Candidate>& candidates, const PlanRequest& request) {
    const auto less_memory = [](const Candidate& a, const Candidate& b) {
        return a.planned.memory_bytes < b.planned.memory_bytes;
    };
    const Candidate* best = nullptr;  // least memory among those that the disk budget allows
    for (const Candidate& candidate : candidates) {
        if (candidate.disk_over == 0 && (best == nullptr || less_memory(candidate, *best))) best = &candidate;
    }
    const Candidate& smallest = *std::min_element(candidates.begin(), candidates.end(), less_memory);
    const auto fits_memory = [&](const Candidate& candidate) { return candidate.memory_over == 0; };
    const auto with_disk = std::find_if(candidates.begin(), candidates.end(), fits_memory);
    std::vector<std::string> changes;
    if (best != nullptr)
        changes.push_back(
            fmt::format("--ram {} (with {})", enough(best->planned.memory_bytes), describe(best->planned)));
    if (with_disk != candidates.end())
        changes.push_back(fmt::format("an --ssd-dir with {} free for {}", enough(with_disk->planned.disk_bytes),
                                      describe(with_disk->planned)));
    changes.push_back("a smaller --per-device-train-batch-size or --max-length");
    std::string hint = changes[0];
    for (size_t i = 1; i < changes.size(); ++i) hint += ", or " + changes[i];
    const Planned& need = best != nullptr ? best->planned : smallest.planned;
    throw UserError(ExitCode::no_fit, "plan",
                    "does not fit: needs at least {} of memory and {} of disk, allowed are {} and {}",
                    enough(need.memory_bytes), enough(need.disk_bytes), format_bytes(request.budgets.ram),
                    format_bytes(request.budgets.disk))
        .hint(hint);
}

}  // namespace

Planned make_plan(const ModelSpec& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                  const PlanRequest& request) {
    std::optional<Planned> best;
    std::vector<Candidate> refused;
    bool known = request.policy == "auto";
    for (const Policy* policy : all_policies()) {
        known = known || policy->name == request.policy;
        if (request.policy != "auto" && request.policy != policy->name) continue;
        for (const Plan& plan : policy->candidates(request)) {
            Candidate candidate = evaluate(model, recipe, numerics, machine, request, plan);
            if (!candidate.fits()) {
                candidate.planned.schedules = {};  // of a large model they take hundreds of MiB; only the numbers count
                candidate.planned.step.tasks = {};
                refused.push_back(std::move(candidate));
            } else if (!best || candidate.planned.step.seconds < best->step.seconds) {
                best = std::move(candidate.planned);
            }
        }
    }
    if (!known)
        throw UserError(ExitCode::usage, "policy", "there is no policy \"{}\"", request.policy)
            .hint("auto, in_memory or three_tier");
    if (!best) refuse(refused, request);
    return std::move(*best);
}

}  // namespace windlass
