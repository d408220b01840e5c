// ratel_rows.h: the rows that Ratel's public artifact gives for one GPU, and what our model of it says of them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "papers/ratel_schedule.h"

namespace windlass {

// fitted: drives and convention are chosen on it. repeated: a fitted row's setting, measured another time.
enum class RowUse { predicted, fitted, repeated };

struct PublishedRow {
    std::string_view table;  // which of the artifact's
    std::string_view model;
    GptShape shape;
    int64_t batch = 1;
    int drives = 12;
    double tflops = 0;
    RowUse use = RowUse::predicted;
};
std::span<const PublishedRow> published_rows();

// Rows that the artifact gives, too, and that are not simulated here.
struct OtherRow {
    std::string_view model;
    int gpus = 1;
    int64_t batch = 1;  // of all GPUs
    double tflops = 0;  // of all GPUs; 0: out of memory
};
std::span<const OtherRow> rows_not_simulated();

// What counts as an operation where TFLOPS are printed.
enum class FlopConvention {
    model,        // 6 for each parameter and token
    recomputing,  // 8: forward a second time, whether or not all of it is done
    done          // 6, and what is done a second time
};
inline constexpr FlopConvention kConventions[] = {FlopConvention::model, FlopConvention::recomputing,
                                                  FlopConvention::done};
std::string_view convention_name(FlopConvention convention);
double flops_per_param_token(FlopConvention convention, const KeptSet& kept);

// All that is fitted, and how well.
struct RatelFit {
    FlopConvention convention = FlopConvention::recomputing;
    double yield = 1;
    double batch_latency_s = 0;
    double error = 0;  // root of the mean square of the fitted rows' relative errors
};
// What the tables are made with: fitted once, and kept, so that a change of the model or the machine shows in them.
RatelFit kept_fit(const Machine& machine);
// The best yield and latency under a convention; latency_too false: with no latency. Deterministic.
RatelFit fit_drives(FlopConvention convention, bool latency_too, const Machine& machine);
// Fits under each convention, the best first.
std::vector<RatelFit> fit_conventions(bool latency_too, const Machine& machine);

// The machine's own disk rates are what its socket passes; the row's drives give less where they are few.
RatelStep step_of(const PublishedRow& row, const RatelFit& fit, const Machine& machine);

struct RowResult {
    const PublishedRow* row = nullptr;
    RatelResult result;
    double tflops = 0;
    double error() const { return tflops / row->tflops - 1; }
};
RowResult simulate_row(const PublishedRow& row, const RatelFit& fit, const Machine& machine);

// How a fit does on the rows that are predicted.
struct PredictedErrors {
    double worst = 0;  // relative
    int beyond = 0;    // rows that are off by more than kErrorWanted
    int rows = 0;
};
inline constexpr double kErrorWanted = 0.15;
PredictedErrors predicted_errors(const RatelFit& fit, const Machine& machine);

}  // namespace windlass
