// fuyou: the paper's tables by simulation. Every number that is not marked as published is simulated, not measured.
//
//   fuyou            prints the paper's tables
//   fuyou --check    prints them, and fails where a predicted row is off by more than 15 %
//   fuyou --fit      prints how the two numbers and the convention that the tables use were chosen, and by how little
//   fuyou --ours     prints what our plans get on the same machine: a minute
//   fuyou --aims     prints what our plans get where we have set ourselves an aim, and fails where one that was met is
//                    no longer met: a minute
#include <string_view>

#include <fmt/format.h>

#include "papers/ours_report.h"
#include "papers/ratel_report.h"
#include "schedule/machine_profiles.h"

namespace windlass {
namespace {

constexpr std::string_view kPaperMachine = "rtx4090-server-12gen4";

int print_paper(const Machine& machine, bool checking) {
    const RatelFit fit = kept_fit(machine);
    fmt::print("Ratel (arXiv 2403.06504; Fuyou, LoHan) on {}: simulated with its bytes and its serial transfers\n",
               machine.name);
    fmt::print(
        "{}, share {:.3f} of a drive's rating, latency {:.2f} ms of a batch of requests: error of the fitted rows "
        "{:.1f} %\n\nTFLOPS, {}\n",
        convention_name(fit.convention), fit.yield, 1e3 * fit.batch_latency_s, 100 * fit.error,
        convention_name(fit.convention));
    const bool close = print_rows(fit, machine);
    fmt::print("\n");
    print_not_simulated();
    fmt::print("\n");
    const bool consistent = print_cross_checks(fit, machine);
    return checking && !(close && consistent) ? 1 : 0;
}

int print_fit(const Machine& machine) {
    print_fits(machine);
    fmt::print("\n");
    print_fits_by_rate(machine);
    return 0;
}

int run(std::string_view mode) {
    const Machine machine = completed(find_machine(real_files(), std::string(kPaperMachine)));
    if (mode == "" || mode == "--check") return print_paper(machine, mode == "--check");
    if (mode == "--fit") return print_fit(machine);
    if (mode == "--ours") return print_ours(machine), 0;
    if (mode == "--aims") return print_aims(machine) ? 0 : 1;
    fmt::print(stderr, "fuyou: {} is none of: --check, --fit, --ours, --aims\n", mode);
    return 2;
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    return windlass::run(argc > 1 ? argv[1] : "");
}
