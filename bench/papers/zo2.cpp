// zo2: forward-only steps of models in the host's memory, planned and simulated beside what ZO2 published. Nothing is
// measured but what is marked as published.
//
//   zo2              memory of OPT 1.3B to 175B
//   zo2 --check      the same, and fails where an aim is missed
//   zo2 --owners     the same, with who takes the device's memory
//   zo2 --directions directions a second by directions and tokens of a step
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "papers/zo2_report.h"

int main(int argc, char** argv) {
    const std::string_view mode = argc > 1 ? argv[1] : "";
    if (mode == "--directions") {
        windlass::print_directions();
        return 0;
    }
    const bool met = windlass::print_memory(mode == "--owners");
    return mode == "--check" && !met ? 1 : 0;
}
