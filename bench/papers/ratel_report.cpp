#include "papers/ratel_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace windlass {
namespace {

// The lane that is at work for most of the step.
std::string busiest_lane(const Simulation& simulation) {
    const auto& busy = simulation.busy_seconds;
    const auto most = std::max_element(busy.begin(), busy.end());
    const auto kind = static_cast<LaneKind>(most - busy.begin());
    const std::string_view name = kind == LaneKind::disk_read ? "disk" : lane_name(kind);
    return fmt::format("{} {:.0f} %", name, 100 * *most / simulation.seconds);
}

std::string_view use_name(RowUse use) {
    if (use == RowUse::fitted) return "fitted";
    return use == RowUse::repeated ? "as a fitted one" : "predicted";
}

// Bytes of a step's transfers by parameter, latencies left out.
Demand bare_demand(const GptShape& shape, const Machine& machine) {
    const RatelStep step{.shape = shape, .batch = 32, .array = {.socket_bytes_per_s = 1}};
    return total_demand(ratel_schedule(step, {}, machine));
}

}  // namespace

RatelFit print_fits(const Machine& machine) {
    const std::vector<RatelFit> fits = fit_conventions(machine);
    fmt::print("fitted on the rows of batch 32 by drives: share of a drive's rating, latency of a batch of requests\n");
    for (const RatelFit& fit : fits)
        fmt::print("  {:<16} share {:.3f}, latency {:.2f} ms, error {:.1f} %{}\n", convention_name(fit.convention),
                   fit.yield, 1e3 * fit.batch_latency_s, 100 * fit.error, &fit == fits.data() ? "  chosen" : "");
    return fits.front();
}

double print_rows(const RatelFit& fit, const Machine& machine) {
    fmt::print("{:<17}{:>6}{:>7}{:>8}{:>11}{:>11}{:>8}{:>8}{:>9}  {:<14}{}\n", "table", "model", "batch", "drives",
               "published", "simulated", "error", "step s", "kept GB", "busiest", "row");
    double worst = 0;
    for (const PublishedRow& row : published_rows()) {
        const RowResult result = simulate_row(row, fit, machine);
        if (row.use == RowUse::predicted) worst = std::max(worst, std::abs(result.error()));
        fmt::print("{:<17}{:>6}{:>7}{:>8}{:>11.1f}{:>11.1f}{:>7.1f}%{:>8.1f}{:>9.1f}  {:<14}{}\n", row.table, row.model,
                   row.batch, row.drives, row.tflops, result.tflops, 100 * result.error(),
                   result.result.simulation.seconds, result.result.kept.bytes / 1e9,
                   busiest_lane(result.result.simulation), use_name(row.use));
    }
    return worst;
}

bool CrossCheck::holds() const {
    return std::abs(ours - published) <= tolerance * published;
}

std::vector<CrossCheck> cross_checks(const Machine& machine) {
    const RatelStep step{.shape = kGpt13b, .batch = 32};
    const Demand demand = bare_demand(kGpt13b, machine);
    const double params = kGpt13b.params(), layers = kGpt13b.layers;
    const std::vector<KeptValue> values = kept_values(kGpt13b, machine);
    // Each layer's input and down-projection, and half of the attention projections.
    const double input_bytes = kHalfBytes * static_cast<double>(kGpt13b.width);
    const double kept = (input_bytes + values[0].bytes + 0.5 * values[1].bytes) * layers * step.tokens();
    const double saved = values[0].seconds + 0.5 * values[1].seconds;
    const double products = 24.0 * static_cast<double>(kGpt13b.width * kGpt13b.width) / machine.gemm_flops(DType::bf16);
    return {
        {"disk reads of a parameter", "B", 16, static_cast<double>(demand.disk_read_bytes) / params, 1e-6},
        {"disk writes of a parameter", "B", 14, static_cast<double>(demand.disk_write_bytes) / params, 1e-6},
        // "13B" has embeddings, which our shape leaves out.
        {"state each way, 13B", "GB", 182, 14 * params / 1e9, 0.05},
        {"activations swapped, 13B, batch 32", "GB", 34, kept / 1e9, 0.05},
        {"backward's work with these kept, over none redone", "%", 132, 100 * (1 + (1 - saved / products) / 2), 0.02},
    };
}

bool print_cross_checks(const Machine& machine) {
    bool all = true;
    for (const CrossCheck& check : cross_checks(machine)) {
        fmt::print("{:<50} published {:>5.0f}, ours {:>6.1f} {}{}\n", check.what, check.published, check.ours,
                   check.unit, check.holds() ? "" : "  WRONG");
        all = all && check.holds();
    }
    return all;
}

}  // namespace windlass
