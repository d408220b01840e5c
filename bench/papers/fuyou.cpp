// fuyou: the paper's tables by simulation. Every number that is not marked as published is simulated, not measured.
//
//   fuyou            prints the paper's tables
//   fuyou --check    prints them, and fails where a predicted row is off by more than 15 %
//   fuyou --ours     prints what our plans get on the same machine instead: minutes
//   fuyou --aims     prints what our plans get where we have set ourselves an aim: minutes
#include <string_view>

#include <fmt/format.h>

#include "papers/ours_report.h"
#include "papers/ratel_report.h"
#include "schedule/machine_profiles.h"

namespace windlass {
namespace {

constexpr double kWanted = 0.15;  // largest error of a predicted row
constexpr std::string_view kPaperMachine = "rtx4090-server-12gen4";

int print_paper(const Machine& machine, bool checking) {
    fmt::print("Ratel (arXiv 2403.06504; Fuyou, LoHan) on {}: simulated with its bytes and its serial transfers\n",
               machine.name);
    const RatelFit fit = print_fits(machine);
    fmt::print("\nTFLOPS, {}\n", convention_name(fit.convention));
    const double worst = print_rows(fit, machine);
    fmt::print("largest error of a predicted row: {:.1f} %\n\n", 100 * worst);
    const bool consistent = print_cross_checks(machine);
    return checking && (worst > kWanted || !consistent) ? 1 : 0;
}

int run(std::string_view mode) {
    const Machine machine = completed(find_machine(real_files(), std::string(kPaperMachine)));
    if (mode == "--ours") {
        print_ours(machine);
    } else if (mode == "--aims") {
        print_aims(machine);
    } else {
        return print_paper(machine, mode == "--check");
    }
    return 0;
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    return windlass::run(argc > 1 ? argv[1] : "");
}
