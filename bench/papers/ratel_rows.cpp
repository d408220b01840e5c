#include "papers/ratel_rows.h"

#include <algorithm>
#include <cmath>

namespace windlass {
namespace {

// github.com/RC4ML/LoHan, evaluation data: one RTX 4090, rows of 1024 tokens.
constexpr PublishedRow kRows[] = {
    {"drives, batch 32", "13B", kGpt13b, 32, 1, 37.5, RowUse::fitted},
    {"drives, batch 32", "13B", kGpt13b, 32, 2, 64.3, RowUse::fitted},
    {"drives, batch 32", "13B", kGpt13b, 32, 3, 81.1, RowUse::fitted},
    {"drives, batch 32", "13B", kGpt13b, 32, 6, 121.7, RowUse::fitted},
    {"drives, batch 32", "13B", kGpt13b, 32, 12, 142.0, RowUse::fitted},
    {"drives, batch 48", "13B", kGpt13b, 48, 1, 53.1},
    {"drives, batch 48", "13B", kGpt13b, 48, 2, 89.7},
    {"drives, batch 48", "13B", kGpt13b, 48, 3, 121.7},
    {"drives, batch 48", "13B", kGpt13b, 48, 6, 146.3},
    {"drives, batch 48", "13B", kGpt13b, 48, 12, 153.9},
    {"drives, batch 64", "13B", kGpt13b, 64, 1, 70.3},
    {"drives, batch 64", "13B", kGpt13b, 64, 2, 111.7},
    {"drives, batch 64", "13B", kGpt13b, 64, 3, 136.3},
    {"drives, batch 64", "13B", kGpt13b, 64, 6, 151.5},
    {"drives, batch 64", "13B", kGpt13b, 64, 12, 148.2},
    {"batch", "13B", kGpt13b, 8, 12, 42.8},
    {"batch", "13B", kGpt13b, 16, 12, 84.3},
    {"batch", "13B", kGpt13b, 32, 12, 143.1, RowUse::repeated},
    {"batch", "13B", kGpt13b, 64, 12, 155.8},
    {"batch", "13B", kGpt13b, 128, 12, 153.8},
    {"batch", "175B", kGpt175b, 8, 12, 52.6},
    {"batch", "175B", kGpt175b, 16, 12, 86.9},
};

// The same artifact: rows on several GPUs, which our model of one does not cover, and the one that did not fit.
constexpr OtherRow kOtherRows[] = {
    {"13B", 2, 16, 55.0},  {"13B", 2, 32, 103.2}, {"13B", 2, 64, 194.7},  {"13B", 2, 128, 278.2},
    {"13B", 4, 32, 106.5}, {"13B", 4, 64, 209.7}, {"13B", 4, 128, 358.7}, {"13B", 4, 256, 514.4},
    {"70B", 2, 16, 64.6},  {"70B", 2, 32, 128.8}, {"70B", 2, 48, 183.5},  {"70B", 4, 32, 124.8},
    {"70B", 4, 64, 249.7}, {"70B", 4, 96, 348.4}, {"175B", 1, 32, 0},
};

// `fuyou --fit` chose these.
constexpr FlopConvention kKeptConvention = FlopConvention::recomputing;
constexpr double kKeptYield = 0.999;
constexpr double kKeptLatency = 0.73e-3;

// A grid over both parameters, and finer ones about its best point.
constexpr double kLowYield = 0.4, kHighYield = 1.6;
constexpr double kLowLatency = 0.1e-3, kHighLatency = 6e-3;
constexpr int kGridPoints = 13;
constexpr int kGridPasses = 4;

double fit_error(const RatelFit& fit, const Machine& machine) {
    double sum = 0;
    int count = 0;
    for (const PublishedRow& row : kRows) {
        if (row.use != RowUse::fitted) continue;
        const double error = simulate_row(row, fit, machine).error();
        sum += error * error;
        ++count;
    }
    return std::sqrt(sum / count);
}

double grid_value(double low, double high, int point) {
    return low * std::pow(high / low, static_cast<double>(point) / (kGridPoints - 1));
}

}  // namespace

std::span<const PublishedRow> published_rows() {
    return kRows;
}

std::span<const OtherRow> rows_not_simulated() {
    return kOtherRows;
}

std::string_view convention_name(FlopConvention convention) {
    if (convention == FlopConvention::model) return "6N";
    return convention == FlopConvention::recomputing ? "8N" : "6N + recomputed";
}

double flops_per_param_token(FlopConvention convention, const KeptSet& kept) {
    if (convention == FlopConvention::model) return 6;
    return convention == FlopConvention::recomputing ? 8 : 6 + 2 * kept.recompute_share;
}

RatelFit kept_fit(const Machine& machine) {
    RatelFit fit{.convention = kKeptConvention, .yield = kKeptYield, .batch_latency_s = kKeptLatency};
    fit.error = fit_error(fit, machine);
    return fit;
}

RatelFit fit_drives(FlopConvention convention, bool latency_too, const Machine& machine) {
    RatelFit best{.convention = convention, .error = HUGE_VAL};
    double yield_low = kLowYield, yield_high = kHighYield, latency_low = kLowLatency, latency_high = kHighLatency;
    for (int pass = 0; pass < kGridPasses; ++pass) {
        for (int i = 0; i < kGridPoints; ++i) {
            for (int j = 0; j < (latency_too ? kGridPoints : 1); ++j) {
                RatelFit fit{.convention = convention,
                             .yield = grid_value(yield_low, yield_high, i),
                             .batch_latency_s = latency_too ? grid_value(latency_low, latency_high, j) : 0};
                fit.error = fit_error(fit, machine);
                if (fit.error < best.error) best = fit;
            }
        }
        // The next grid spans two of this one's steps to either side.
        const double yield_step = std::pow(yield_high / yield_low, 2.0 / (kGridPoints - 1));
        const double latency_step = std::pow(latency_high / latency_low, 2.0 / (kGridPoints - 1));
        yield_low = best.yield / yield_step, yield_high = best.yield * yield_step;
        latency_low = best.batch_latency_s / latency_step, latency_high = best.batch_latency_s * latency_step;
    }
    return best;
}

std::vector<RatelFit> fit_conventions(bool latency_too, const Machine& machine) {
    std::vector<RatelFit> fits;
    for (const FlopConvention convention : kConventions) fits.push_back(fit_drives(convention, latency_too, machine));
    std::stable_sort(fits.begin(), fits.end(), [](const RatelFit& a, const RatelFit& b) { return a.error < b.error; });
    return fits;
}

RatelStep step_of(const PublishedRow& row, const RatelFit& fit, const Machine& machine) {
    return {.shape = row.shape,
            .batch = row.batch,
            .array = {.drives = row.drives,
                      .yield = fit.yield,
                      .batch_latency_s = fit.batch_latency_s,
                      .socket_bytes_per_s = machine.disk_read_bytes_per_s}};
}

RowResult simulate_row(const PublishedRow& row, const RatelFit& fit, const Machine& machine) {
    const RatelStep step = step_of(row, fit, machine);
    RowResult result{.row = &row, .result = simulate_ratel(step, machine)};
    const double flops = flops_per_param_token(fit.convention, result.result.kept) * row.shape.params() * step.tokens();
    result.tflops = flops / result.result.simulation.seconds / 1e12;
    return result;
}

PredictedErrors predicted_errors(const RatelFit& fit, const Machine& machine) {
    PredictedErrors errors;
    for (const PublishedRow& row : kRows) {
        if (row.use != RowUse::predicted) continue;
        const double error = std::abs(simulate_row(row, fit, machine).error());
        errors.worst = std::max(errors.worst, error);
        errors.beyond += error > kErrorWanted ? 1 : 0;
        ++errors.rows;
    }
    return errors;
}

}  // namespace windlass
