#include "schedule/simulate.h"

#include <algorithm>

namespace windlass {
namespace {

double ratio(double amount, double rate) {
    return rate > 0 ? amount / rate : 0.0;
}

// What one task would take by itself: products at the machine's rate, and the bytes that they do not explain.
double task_seconds(const Task& task, const Machine& machine, DType compute) {
    const Demand& demand = task.demand;
    const double products = ratio(demand.flops, machine.gemm_flops(compute));
    const double memory = ratio(static_cast<double>(demand.memory_bytes), machine.memory_bytes_per_s);
    const double disk = ratio(static_cast<double>(demand.disk_read_bytes), machine.disk_read_bytes_per_s) +
                        ratio(static_cast<double>(demand.disk_write_bytes), machine.disk_write_bytes_per_s);
    return products + memory + disk;
}

}  // namespace

Simulation simulate(const Schedule& schedule, const Machine& machine) {
    Simulation result;
    result.demand = total_demand(schedule);
    result.tasks.reserve(schedule.tasks.size());
    std::array<std::vector<double>, kLaneKinds> ends;  // by lane: when its n-th task was done
    for (const Task& task : schedule.tasks) {
        std::vector<double>& lane = ends[static_cast<size_t>(task.lane)];
        double start = lane.empty() ? 0.0 : lane.back();
        for (size_t other = 0; other < ends.size(); ++other) {
            if (task.after[other] > 0) start = std::max(start, ends[other][static_cast<size_t>(task.after[other]) - 1]);
        }
        const double seconds = task_seconds(task, machine, schedule.size.compute);
        lane.push_back(start + seconds);
        result.busy_seconds[static_cast<size_t>(task.lane)] += seconds;
        result.seconds = std::max(result.seconds, start + seconds);
        result.tasks.push_back({start, start + seconds});
    }
    return result;
}

}  // namespace windlass
