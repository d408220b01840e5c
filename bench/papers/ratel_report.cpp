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

void print_fits(const Machine& machine) {
    fmt::print("{:<34}{:>8}{:>12}{:>14}{:>18}{:>14}\n", "convention", "share", "latency ms", "fitted rows",
               "worst predicted", "beyond 15 %");
    for (const bool latency_too : {true, false}) {
        for (const RatelFit& fit : fit_conventions(latency_too, machine)) {
            const PredictedErrors errors = predicted_errors(fit, machine);
            fmt::print("{:<34}{:>8.3f}{:>12.2f}{:>12.1f} %{:>16.1f} %{:>14}\n",
                       fmt::format("{}{}", convention_name(fit.convention), latency_too ? "" : ", no latency"),
                       fit.yield, 1e3 * fit.batch_latency_s, 100 * fit.error, 100 * errors.worst,
                       fmt::format("{} of {}", errors.beyond, errors.rows));
        }
    }
}

namespace {

constexpr double kTera = 1e12, kGiga = 1e9;

void print_refitted(double rate, FlopConvention convention, const Machine& machine) {
    const RatelFit fit = fit_drives(convention, true, machine);
    const PredictedErrors errors = predicted_errors(fit, machine);
    fmt::print("{:>20.0f}{:>12}{:>12.1f} %{:>16.1f} %{:>14}\n", rate, convention_name(convention), 100 * fit.error,
               100 * errors.worst, fmt::format("{} of {}", errors.beyond, errors.rows));
}

}  // namespace

void print_fits_by_rate(const Machine& machine) {
    constexpr std::string_view kHead = "{:>20}{:>12}{:>14}{:>18}{:>14}\n";
    fmt::print(kHead, "products TFLOP/s", "convention", "fitted rows", "worst predicted", "beyond 15 %");
    for (const double rate : {112.0, 124.0, 132.0, 140.0, 148.0, 155.0}) {
        Machine other = machine;
        other.attention_bf16_flops *= rate * kTera / other.gemm_bf16_flops;
        other.gemm_bf16_flops = rate * kTera;
        print_refitted(rate, FlopConvention::recomputing, other);
        print_refitted(rate, FlopConvention::model, other);
    }
    fmt::print("\n");
    fmt::print(kHead, "socket GB/s", "convention", "fitted rows", "worst predicted", "beyond 15 %");
    for (const double rate : {24.0, 28.0, 32.0, 36.0, 40.0, 78.0}) {
        Machine other = machine;
        other.disk_read_bytes_per_s = rate * kGiga;
        print_refitted(rate, FlopConvention::recomputing, other);
    }
}

bool print_rows(const RatelFit& fit, const Machine& machine) {
    fmt::print("{:<17}{:>6}{:>7}{:>8}{:>11}{:>11}{:>8}{:>8}{:>9}  {:<14}{}\n", "table", "model", "batch", "drives",
               "published", "simulated", "error", "step s", "kept GB", "busiest", "row");
    for (const PublishedRow& row : published_rows()) {
        const RowResult result = simulate_row(row, fit, machine);
        fmt::print("{:<17}{:>6}{:>7}{:>8}{:>11.1f}{:>11.1f}{:>7.1f}%{:>8.1f}{:>9.1f}  {:<14}{}\n", row.table, row.model,
                   row.batch, row.drives, row.tflops, result.tflops, 100 * result.error(),
                   result.result.simulation.seconds, result.result.kept.bytes / 1e9,
                   busiest_lane(result.result.simulation), use_name(row.use));
    }
    const PredictedErrors errors = predicted_errors(fit, machine);
    fmt::print("largest error of a predicted row: {:.1f} %\n", 100 * errors.worst);
    return errors.beyond == 0;
}

void print_not_simulated() {
    fmt::print("published, not simulated (rows of 1024 tokens; batch and TFLOPS of all GPUs):\n");
    for (const OtherRow& row : rows_not_simulated())
        fmt::print("  {:>4}, {:<7} batch {:>3}: {}\n", row.model,
                   row.gpus > 1 ? fmt::format("{} GPUs,", row.gpus) : "1 GPU,", row.batch,
                   row.tflops > 0 ? fmt::format("{:.1f}", row.tflops) : "out of memory");
}

bool CrossCheck::holds() const {
    return tolerance == 0 || std::abs(ours - published) <= tolerance * published;
}

std::vector<CrossCheck> cross_checks(const RatelFit& fit, const Machine& machine) {
    const Demand demand = bare_demand(kGpt13b, machine);
    const double params = kGpt13b.params();
    const RatelStep step{.shape = kGpt13b,
                         .batch = 32,
                         .array = {.drives = 12,
                                   .yield = fit.yield,
                                   .batch_latency_s = fit.batch_latency_s,
                                   .socket_bytes_per_s = machine.disk_read_bytes_per_s}};
    const KeptSet kept = simulate_ratel(step, machine).kept;
    const double inputs = kHalfBytes * static_cast<double>(kGpt13b.width) * kGpt13b.layers * step.tokens();
    return {
        {"disk reads of a parameter", "B", 16, static_cast<double>(demand.disk_read_bytes) / params, 1e-6},
        {"disk writes of a parameter", "B", 14, static_cast<double>(demand.disk_write_bytes) / params, 1e-6},
        // "13B" has embeddings, which our shape leaves out.
        {"state each way, 13B", "GB", 182, static_cast<double>(demand.disk_write_bytes) / 1e9, 0.05},
        {"activations swapped, 13B, batch 32, 12 drives", "GB", 34, (inputs + kept.bytes) / 1e9},
        {"backward's work there, over none redone", "%", 132, 100 * (1 + kept.recompute_share / 2)},
    };
}

bool print_cross_checks(const RatelFit& fit, const Machine& machine) {
    bool all = true;
    for (const CrossCheck& check : cross_checks(fit, machine)) {
        const std::string_view verdict = !check.holds()         ? "WRONG"
                                         : check.tolerance == 0 ? "the model's own choice: held to nothing"
                                                                : "what the step is written from: must come out again";
        fmt::print("{:<47} published {:>4.0f}, ours {:>6.1f} {:<2}  {}\n", check.what, check.published, check.ours,
                   check.unit, verdict);
        all = all && check.holds();
    }
    return all;
}

}  // namespace windlass
