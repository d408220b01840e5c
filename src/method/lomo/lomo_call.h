// lomo_call.h: what kernels of LOMO and AdaLomo take, from the call of an update; the same for every device.
#pragma once

#include <cmath>

#include "base/math.h"
#include "base/rng.h"
#include "method/lomo/lomo_kernel.h"
#include "method/recipe.h"
#include "perturb/noise.h"

namespace windlass {

inline double lomo_rate(const ParamCall& call) {
    return call.step->learning_rate * call.param.training.learning_rate_scale;
}
inline double lomo_weight_decay(const ParamCall& call) {
    const ParamTraining& training = call.param.training;
    return training.decays ? training.weight_decay.value_or(call.step->gradient().weight_decay) : 0.0;
}

inline LomoStep lomo_step_of(const ParamCall& call) {
    return {.decay = static_cast<float>(1.0 - lomo_rate(call) * lomo_weight_decay(call)),
            .rate = static_cast<float>(lomo_rate(call) * call.step->clip_scale)};
}

// Of the elements of the call from `begin` on; low halves are in one piece up to the next multiple of low_elements.
inline LomoWeights lomo_weights(const ParamCall& call, int64_t begin) {
    const ParamStorage& storage = call.param.storage;
    std::byte* const kept = call.weights() + stored_bytes(storage.dtype, begin);
    if (storage.store == StoreType::as_file) return {weight_type(storage.dtype), kept, nullptr};
    if (call.lows.empty()) return {WeightType::bf16, kept, call.lo + begin};
    const auto piece = static_cast<size_t>(begin / call.low_elements);
    return {WeightType::bf16, kept, call.lows[piece] + begin % call.low_elements};
}

// Of the elements from `begin` on, which begins a block.
inline LomoNoise lomo_noise(const ParamCall& call, int64_t begin) {
    return {.seed = call.step->seed,
            .block = static_cast<uint64_t>(call.element + begin) / 4,
            .stream = static_cast<uint32_t>(RandomStream::rounding),
            .step = static_cast<uint32_t>(call.step->step)};
}

// What both recipes have in common, but for the kernel, and what both kernels read and write.
Recipe lomo_recipe(const MethodOptions& options, std::string_view name, const ParamKernel& update);
std::vector<SlotUse> lomo_uses();

// A matrix in bands of rows, whose sums are independent of each other; a vector is one row.
struct LomoShape {
    int64_t rows = 1, cols = 1;
    bool is_matrix = false;

    explicit LomoShape(const ParamSpec& param) : cols(param.numel()) {
        is_matrix = param.shape.rank() == 2;
        if (is_matrix) rows = param.shape[0], cols = param.shape[1];
    }
    int64_t band_rows() const { return div_up(rows, kLomoBandsMax); }
    int64_t bands() const { return div_up(rows, band_rows()); }
    int64_t band_begin(int64_t band) const { return band * band_rows(); }
    int64_t band_end(int64_t band) const { return std::min(rows, band_begin(band) + band_rows()); }
};

// Where the sums and gains of an update lie in ParamCall::work.
struct AdalomoWork {
    double *column_sums, *row_sums, *step_sums, *weight_sums;  // [bands, cols], [rows], [rows], [rows]
    float *row_gains, *column_gains, *decay_factor;            // [rows], [cols], one

    AdalomoWork(const LomoShape& shape, std::byte* work)
        : column_sums(reinterpret_cast<double*>(work)),
          row_sums(column_sums + shape.bands() * shape.cols),
          step_sums(row_sums + shape.rows),
          weight_sums(step_sums + shape.rows),
          row_gains(reinterpret_cast<float*>(weight_sums + shape.rows)),
          column_gains(row_gains + shape.rows),
          decay_factor(column_gains + shape.cols) {}
    static int64_t bytes(const LomoShape& shape) {
        return 8 * (shape.bands() * shape.cols + 3 * shape.rows) + 4 * (shape.rows + shape.cols + 1);
    }
};

// What the kernels need besides them, in double.
struct AdalomoNumbers {
    double kept = 0, added = 1;  // b and 1 - b of the second moments
    double rate = 0, decay = 0;  // learning rate, weight decay

    explicit AdalomoNumbers(const ParamCall& call)
        : added(std::pow(static_cast<double>(call.step->step), -0.8)),
          rate(lomo_rate(call)),
          decay(lomo_weight_decay(call)) {
        kept = 1.0 - added;
    }
};

}  // namespace windlass
