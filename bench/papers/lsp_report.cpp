#include "papers/lsp_report.h"

#include <array>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "papers/lsp_schedule.h"

namespace windlass {
namespace {

// Table 1 of the paper: LLaMA 7B on an RTX 4090 and a Threadripper 3970X, milliseconds of a layer; and the same with a
// host that takes 36 ms and a link that takes 20.
struct Costs {
    LayerCosts costs;
    double behind, arrival, aim, deadlines;  // seconds: wanted within 5 %, at most, and earliest deadline first
};
constexpr Costs kCosts[] = {
    {{12.2e-3, 28.1e-3, 29e-3, 60e-3, 29e-3, 32}, 4.19, 2.40, 2.09, 2.03},
    {{12.2e-3, 28.1e-3, 20e-3, 36e-3, 20e-3, 32}, 3.10, 1.61, 1.42, 1.39},
};
constexpr double kTolerance = 0.05;
constexpr double kPrinted = 0.005;  // of a second: what two digits tell

bool is_near(double seconds, double wanted) {
    return std::abs(seconds - wanted) <= kTolerance * wanted;
}

void print_line(std::string_view words, double seconds, double wanted, std::string_view note) {
    fmt::print("  {:<58}{:>6.2f}", words, seconds);
    if (wanted > 0) fmt::print("{:>8.2f}", wanted);
    fmt::print("{}{}\n", note.empty() ? "" : "  ", note);
}

bool print_costs(const Costs& each) {
    const LayerCosts& c = each.costs;
    fmt::print(
        "forward {:.1f}, backward {:.1f}, down {:.0f}, host {:.0f}, up {:.0f} ms a layer, {} layers: the device "
        "works {:.2f} s, the host {:.2f} s\n",
        1e3 * c.forward, 1e3 * c.backward, 1e3 * c.down, 1e3 * c.host, 1e3 * c.up, c.layers,
        c.layers * (c.forward + c.backward), c.layers * c.host);
    fmt::print("  {:<58}{:>6}{:>8}\n", "", "s", "wanted");
    const LayerWise ours(c);
    const double zero = ours.behind_backward(true), arrival = ours.on_arrival(0);
    const PlannedStep planned = ours.planned(false), visiting = ours.planned(true);
    print_line("behind backward, weights up behind all (ZeRO-Offload)", zero, each.behind, "within 5 %");
    print_line("behind backward, weights up as they are updated", ours.behind_backward(false), 0, "");
    print_line("in order of arrival", arrival, each.arrival, "within 5 %");
    for (const int eighths : {2, 4})
        print_line(fmt::format("in order of arrival, {} of 8 layers in the next forward", eighths),
                   ours.on_arrival(eighths), 0, "");
    print_line("what the planner finds where the host updates all", planned.seconds, each.aim, "at most");
    fmt::print("      {}\n", planned.words);
    print_line("what it finds where states may visit the device", visiting.seconds, 0, "");
    fmt::print("      {}\n", visiting.words);
    print_line("four queues: first come, first served", pipelined_step(c, {0}), each.arrival, "");
    print_line("four queues: earliest deadline first", pipelined_step(c, {c.layers}), each.deadlines, "");
    fmt::print("  four queues, the paper's order: of the first n layers the last that came, before all others\n    n");
    constexpr std::array kDepths = {0, 2, 4, 6, 8, 12, 16, 24, 32};
    for (const int depth : kDepths) fmt::print("{:>7}", depth);
    fmt::print("\n    s");
    for (const int depth : kDepths) fmt::print("{:>7.2f}", pipelined_step(c, {depth}));
    fmt::print("\n");
    return is_near(zero, each.behind) && is_near(arrival, each.arrival) && planned.seconds <= each.aim + kPrinted &&
           visiting.seconds <= each.aim + kPrinted;
}

}  // namespace

bool print_orders() {
    bool met = true;
    for (const Costs& each : kCosts) {
        if (!print_costs(each)) met = false;
        fmt::print("\n");
    }
    fmt::print("{}\n", met ? "every aim is met" : "an aim is MISSED");
    return met;
}

}  // namespace windlass
