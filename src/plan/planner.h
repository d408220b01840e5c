// planner.h: budgets in, a Plan that fits them out, or a refusal that says what would help.
#pragma once

#include <array>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "method/recipe.h"
#include "plan/no_fit.h"
#include "plan/space.h"
#include "schedule/check.h"
#include "schedule/lower.h"
#include "schedule/machine.h"
#include "schedule/plan.h"
#include "schedule/simulate.h"

namespace windlass {

struct Budgets {
    int64_t ram = 0;               // bytes of host memory that the process may use
    int64_t disk = 0;              // bytes for the working store and what spills; 0: no disk tier
    int64_t process = 0;           // measured: libraries, stacks, JIT, tokenizer, data index
    int64_t exporter = 0;          // of an export that reads the working store during the steps; 0: no such export
    int64_t device = 0;            // bytes of the device's own memory, where it has any
    int64_t step_disk_writes = 0;  // bytes that a step may write to disk; 0: as many as it likes
};

// A choice that a search found, and the policy whose space it is from.
struct FoundChoice {
    std::string policy;
    Choice choice{};
};

// find_plan was told to stop, and found nothing.
class PlanStopped : public std::exception {
  public:
    const char* what() const noexcept override { return "the search was stopped"; }
};

struct PlanRequest {
    std::string policy;  // in_memory, host_stream or three_tier; empty: any
    // Nothing: the planner chooses.
    std::optional<bool> recompute;
    std::optional<UpdateTime> update_time;  // not at_once, which methods ask for
    DeviceId device;
    int threads = 1;
    Budgets budgets;
    std::vector<ScheduleRequest> schedules;
    int64_t example_rows = 1;      // the fewest of a micro-batch: those of one example
    int writeback_steps = 0;       // forward-only: steps from one write-back to the next; 0: the planner's choice
    double clip_frequency = 0.25;  // of steps: what a speculative update that must be redone costs; before any was seen
    // For a comparison, which needs no more than a first look: some descents, from this choice if it is of the policy.
    std::optional<FoundChoice> start;
    std::function<bool()> should_stop;  // asked before each evaluation: true ends find_plan by PlanStopped; null: never
};

// One line of the placement table.
struct PlacementRow {
    std::string tag;
    int64_t memory_bytes = 0;  // of the host
    int64_t device_bytes = 0;  // of a device with its own memory
    int64_t disk_bytes = 0;
};

// What bounds a step, and what a change of the machine would make of it.
struct Binding {
    LaneKind lane = LaneKind::compute;
    double busy = 0;          // share of the step's time that this lane works
    std::string improvement;  // "with a disk twice as fast: 3.1 s a step"; empty where nothing tried helps
};

struct Planned {
    Plan plan;
    Choice choice{};        // what the search turned for it; of a plan that was found
    ScheduleSet schedules;  // lowered and checked
    std::vector<PlacementRow> placement;
    int64_t memory_bytes = 0;  // predicted peak of the process: the host's arena and the process; and the device's,
                               // where that is a part of the host's memory
    int64_t device_bytes = 0;  // of a device with its own memory
    int64_t disk_bytes = 0;    // working store and spills
    Simulation step;           // of the largest training schedule (or the first one)
    double redo_seconds = 0;   // what a clipped step takes longer, where updates are speculative
    double phase_seconds = 0;  // of a phase between two steps, where there is one
    double mean_seconds =
        0;  // of a step, with the share of clipped ones that is to be expected: plans are compared by it
    Binding binding;
    int evaluations = 0;  // choices that were lowered and simulated
};

using PlanOutcome = std::variant<Planned, NoFit>;

// What was found for the same step in larger micro-batches.
struct Rival {
    std::string policy;
    Choice choice{};
    double seconds = 0;  // Planned::mean_seconds
};

// The fastest choice found of all policies asked for that fits. With a rival, a first look, some descents for each
// policy, decides first: a NoFit without words if it finds nothing faster, since most micro-batches are slower than
// larger ones; what it finds if that gains little; a whole search if it gains much. With PlanRequest::start, what a
// first look finds, or a NoFit without words.
PlanOutcome find_plan(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                      const PlanRequest& request, const std::optional<Rival>& rival = std::nullopt);
// The refusal if no choice fits, as descents from where memory is least tell; far cheaper than a search.
std::optional<NoFit> refuse_early(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics,
                                  const Machine& machine, const PlanRequest& request);
// Like find_plan, but throws NoFit::error() if nothing fits, after `explain` has said what it knows of it.
Planned make_plan(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                  const PlanRequest& request, const std::function<void(NoFit& none)>& explain = {});

// One plan as it would run: lowered, checked, simulated, and against the budgets.
Planned evaluate_plan(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                      const PlanRequest& request, const Plan& plan);

// The schedule that Planned::step is of.
const Schedule& leading_schedule(const ScheduleSet& set);

// What a policy must know of a model to say what may be turned.
struct SpaceInput {
    int saved_most = 0;    // values that a block keeps for backward
    int block_chunks = 1;  // chunks of the largest block's update
};

// A policy is one file in policies/ and one line in policies/all.cpp.
struct Policy {
    std::string_view name;
    // What may be turned; nothing where the policy is not for this device or these budgets.
    std::optional<Space> (*space)(const PlanRequest& request, const SpaceInput& input);
};
std::span<const Policy* const> all_policies();

}  // namespace windlass
