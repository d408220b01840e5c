#include "plan/binding.h"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "base/units.h"
#include "schedule/simulate.h"

namespace windlass {
namespace {

// The machine with one thing twice as good.
std::vector<std::pair<std::string, Machine>> better_machines(const Machine& machine) {
    std::vector<std::pair<std::string, Machine>> list;
    const auto twice = [&](const char* what, std::initializer_list<double Machine::*> rates) {
        Machine better = machine;
        for (const auto rate : rates) better.*rate *= 2;
        list.emplace_back(what, better);
    };
    twice("a disk",
          {&Machine::disk_read_bytes_per_s, &Machine::disk_write_bytes_per_s, &Machine::disk_mixed_bytes_per_s});
    twice("a link", {&Machine::link_up_bytes_per_s, &Machine::link_down_bytes_per_s, &Machine::link_both_bytes_per_s});
    twice("matrix products",
          {&Machine::gemm_bf16_flops, &Machine::gemm_f32_flops, &Machine::narrow_bf16_flops, &Machine::narrow_f32_flops,
           &Machine::attention_bf16_flops, &Machine::attention_f32_flops});
    // Prices ask for these first: doubling the general rates alone would change nothing on a measured machine.
    for (auto& [kernel, rate] : list.back().second.kernels) rate *= 2;
    twice("memory and updates", {&Machine::memory_bytes_per_s, &Machine::update_bytes_per_s});
    for (auto& [update, rate] : list.back().second.updates) rate *= 2;
    return list;
}

}  // namespace

Binding find_binding(const Planned& planned, const Machine& machine) {
    const auto& busy = planned.step.busy_seconds;
    const auto most = std::max_element(busy.begin(), busy.end());
    Binding binding{.lane = static_cast<LaneKind>(most - busy.begin()),
                    .busy = planned.step.seconds > 0 ? *most / planned.step.seconds : 0};
    // An improvement of less than 3 % is not worth a line.
    double best = planned.step.seconds * 0.97;
    for (const auto& [what, better] : better_machines(machine)) {
        const double seconds = simulate(leading_schedule(planned.schedules), better).seconds;
        if (seconds >= best) continue;
        best = seconds;
        binding.improvement = fmt::format("with {} twice as fast: {} a step", what, format_seconds(seconds));
    }
    return binding;
}

}  // namespace windlass
