// planner.h: budgets in, a Plan that fits them out, or a refusal that says what would help.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "method/recipe.h"
#include "schedule/check.h"
#include "schedule/lower.h"
#include "schedule/machine.h"
#include "schedule/plan.h"
#include "schedule/simulate.h"

namespace windlass {

struct Budgets {
    int64_t ram = 0;      // bytes that the process may use
    int64_t disk = 0;     // bytes for the working store and checkpoints; 0: no disk tier
    int64_t process = 0;  // measured: libraries, stacks, JIT, tokenizer, data index
};

struct PlanRequest {
    std::string policy = "auto";     // auto | in_memory | three_tier
    std::string recompute = "auto";  // auto | true | false
    DeviceId device;
    int threads = 1;
    Budgets budgets;
    std::vector<ScheduleRequest> schedules;
};

// One line of the placement table.
struct PlacementRow {
    std::string owner;
    int64_t memory_bytes = 0;
    int64_t disk_bytes = 0;
};

struct Planned {
    Plan plan;
    ScheduleSet schedules;  // lowered and checked
    std::vector<PlacementRow> placement;
    int64_t memory_bytes = 0;  // predicted peak: arena + process
    int64_t disk_bytes = 0;    // working store and gradient spill
    Simulation step;           // of the largest training schedule (or the first one)
};

// The first candidate of the policy, fastest first, that fits. Throws UserError(no_fit) naming the need, the budget
// and the smallest change that would make it fit.
Planned make_plan(const ModelSpec& model, const Recipe& recipe, const Numerics& numerics, const Machine& machine,
                  const PlanRequest& request);

// A policy is one file in policies/ and one line in policies/all.cpp.
struct Policy {
    std::string_view name;
    // Plans to try, the fastest first.
    std::vector<Plan> (*candidates)(const PlanRequest& request);
};
std::span<const Policy* const> all_policies();

}  // namespace windlass
