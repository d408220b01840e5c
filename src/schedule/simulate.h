// simulate.h: predicts a step: the same schedule, interpreted with a Machine's rates.
#pragma once

#include <array>
#include <vector>

#include "schedule/machine.h"
#include "schedule/schedule.h"

namespace windlass {

struct SimulatedTask {
    double start_s = 0;
    double end_s = 0;
};

struct Simulation {
    double seconds = 0;
    std::array<double, kLaneKinds> busy_seconds{};  // per lane
    Demand demand;
    std::vector<SimulatedTask> tasks;  // parallel to Schedule::tasks
};

Simulation simulate(const Schedule& schedule, const Machine& machine);

}  // namespace windlass
