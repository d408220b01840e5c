// simulate.h: predicts a step: the same schedule, interpreted with a Machine's rates.
//
// Lanes work first in, first out, one task each. Lanes are not resources: tasks that run at once share cores, memory,
// link and drives as the Machine says, and where they want more than there is, each of them is slowed in proportion.
// docs/dev/simulator.md has the formulas. Deterministic: equal input, equal bits.
#pragma once

#include <array>
#include <vector>

#include "schedule/machine.h"
#include "schedule/schedule.h"

namespace windlass {

// Where not every step's updates are written back (Schedule::writeback_steps): a step on the average over the period;
// `tasks` are those of the step that they are written back in.
struct Simulation {
    double seconds = 0;
    std::array<double, kLaneKinds> busy_seconds{};   // by kind of lane: some task of it was running
    std::array<double, kLaneKinds> alone_seconds{};  // by kind of lane: what its tasks would take without sharing
    Demand demand;
    std::vector<TaskSpan> tasks;  // parallel to Schedule::tasks
};

// `schedule` has passed check. About a tenth of a microsecond for each task.
Simulation simulate(const Schedule& schedule, const Machine& machine);
// An upper bound for a forward-only step that runs its schedule `rounds` times: as if all applied updates as the first.
Simulation in_rounds(Simulation step, int64_t rounds);

}  // namespace windlass
