// zo2: forward-only steps of models in the host's memory, planned and simulated beside what ZO2 published. Nothing is
// measured but what is marked as published.
//
//   zo2              memory of OPT 1.3B to 175B
//   zo2 --check      the same, and fails where an aim is missed
//   zo2 --each-step  the same where every step's update is written back at once
//   zo2 --owners     who takes the device's memory where we have an aim
//   zo2 --directions directions a second by directions and tokens of a step; fails where an aim is missed
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "papers/zo2_report.h"

int main(int argc, char** argv) {
    const std::string_view mode = argc > 1 ? argv[1] : "";
    if (mode == "--directions") return windlass::print_directions() ? 0 : 1;
    if (mode != "" && mode != "--check" && mode != "--each-step" && mode != "--owners") {
        fmt::print(stderr, "zo2: {} is none of: --check, --each-step, --owners, --directions\n", mode);
        return 2;
    }
    const bool met = windlass::print_memory({.each_step = mode == "--each-step", .owners = mode == "--owners"});
    return mode == "--check" && !met ? 1 : 0;
}
