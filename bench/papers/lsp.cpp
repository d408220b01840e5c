// lsp: the schedule and the steps of LSP-Offload (arXiv 2406.10181), by simulation, beside what it published.
//
//   lsp           steps of 7 billion parameters with the paper's costs of a layer, by order of the updates
//   lsp --check   the same, and fails where an aim is missed
//   lsp --steps   steps of the paper's models with and without sparse projectors
#include <string_view>

#include <fmt/format.h>

#include "papers/lsp_report.h"

int main(int argc, char** argv) {
    const std::string_view mode = argc > 1 ? argv[1] : "";
    if (mode != "" && mode != "--check" && mode != "--steps") {
        fmt::print(stderr, "lsp: {} is none of: --check, --steps\n", mode);
        return 2;
    }
    const bool met = mode == "--steps" ? windlass::print_published_steps() : windlass::print_orders();
    return mode == "--check" && !met ? 1 : 0;
}
