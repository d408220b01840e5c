// step_profile.h: where the time of a step goes, printed: a line for each kind of kernel, and for what is no kernel.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "run/engine.h"

namespace windlass {

// What a step asks of each kind of kernel.
inline std::map<std::pair<std::string_view, DiffMode>, Cost> kernel_costs(const Schedule& schedule) {
    std::map<std::pair<std::string_view, DiffMode>, Cost> costs;
    for (const RunTask& run : schedule.runs) {
        for (const SegmentCall& call : schedule.segments[static_cast<size_t>(run.segment)].calls) {
            Cost& cost = costs[{call.node->op->name, call.mode}];
            cost.flops += call.cost.flops;
            cost.bytes += call.cost.bytes;
        }
    }
    return costs;
}

inline void print_profile(const OpProfile& profile, const Schedule& schedule, const StepReport& report, int steps,
                          double seconds) {
    std::vector<std::pair<int64_t, std::string>> lines;
    auto costs = kernel_costs(schedule);
    for (const auto& [key, ns] : profile.ns()) {
        const Cost& cost = costs[key];
        const double each = static_cast<double>(ns) / steps;  // so many operations or bytes in a nanosecond
        lines.emplace_back(ns, fmt::format("{:<25} {:>6.1f} GFLOP/s {:>6.1f} GB/s",
                                           fmt::format("{} {}", key.first, diff_mode_name(key.second)),
                                           cost.flops / each, static_cast<double>(cost.bytes) / each));
    }
    int64_t update = 0, arrive = 0, reduce = 0;
    for (size_t i = 0; i < schedule.tasks.size(); ++i) {
        const int64_t ns = report.tasks[i].end_ns - report.tasks[i].start_ns;
        if (schedule.tasks[i].verb != Verb::param) continue;
        const ParamTask& task = schedule.params[static_cast<size_t>(schedule.tasks[i].payload)];
        (task.kernel->has_update_rate ? update : task.uses(ParamSlot::plain) ? arrive : reduce) += ns;
    }
    lines.emplace_back(update * steps, "update");
    lines.emplace_back(arrive * steps, "update and probe");
    lines.emplace_back(reduce * steps, "gradient norm");
    std::sort(lines.rbegin(), lines.rend());
    fmt::print("where the time goes:\n");
    for (const auto& [ns, name] : lines) {
        const double share = static_cast<double>(ns) * 1e-9 / steps / seconds;
        if (share >= 0.001)
            fmt::print("  {:<52} {:>8.1f} ms  {:>5.1f} %\n", name, static_cast<double>(ns) * 1e-6 / steps, 100 * share);
    }
}

}  // namespace windlass
