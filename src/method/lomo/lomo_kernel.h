// lomo_kernel.h: steps of LOMO and AdaLomo over elements of a parameter, compiled once per instruction set.
//
// Plain functions and plain types only: this header is read by objects of every instruction set. The formulas are in
// README.md next to this file.
#pragma once

#include <cstdint>

#include "perturb/noise_kernel.h"

namespace windlass {

// Weights as they are kept: numbers of a type, or, where `lo` is given, the two halves of fp32 masters.
struct LomoWeights {
    WeightType type;
    void* kept;
    int16_t* lo;
};

// What random rounding is counted by (base/rng.h); block: a quarter of the run's first element in the model, which is
// the first of kLomoBlock.
struct LomoNoise {
    uint64_t seed;
    uint64_t block;
    uint32_t stream, step;
};
inline constexpr int64_t kLomoBlock = 256;

struct LomoStep {
    float decay;  // 1 - lr * weight_decay
    float rate;   // lr, times the clip factor
};
using LomoLoop = void(const LomoStep& step, const LomoNoise& noise, int64_t count, const LomoWeights& weights,
                      const float* gradient);

// Of a matrix, or of a vector as a matrix of one row. Sums are in double, and in one order: those of a row over
// kLomoLanes running ones, whose halves are added until one is left; those of a column over the rows of a band, and
// then over bands.
inline constexpr int64_t kLomoLanes = 32;
inline constexpr int64_t kLomoBandsMax = 32;

inline constexpr double kAdalomoLeastSquare = 1e-30;  // is added to squares of the gradient
inline constexpr double kAdalomoLeastSize = 1e-3;     // of weights, as steps are measured by them
inline constexpr double kAdalomoLongestStep = 1;

// Rows of a matrix with this many columns, from `gradient` on: the sum of squares of each, and of its columns.
using SquaresLoop = void(float clip, int64_t rows, int64_t cols, const float* gradient, double* row_sums,
                         double* column_sums);
// One row, or a part of it that begins with this lane: adds the squares of its steps u = (g row) column
// and of its weights to kLomoLanes running sums each.
using NormsLoop = void(float row_gain, const float* column_gains, int64_t lane, int64_t count,
                       const LomoWeights& weights, const float* gradient, double* step_lanes, double* weight_lanes);

struct AdalomoStep {
    float decay;
    int64_t cols;
    int64_t first;              // of the run, in the parameter
    const float* row_gains;     // by row: what its steps are multiplied with, the rate in it
    const float* column_gains;  // by column
};
using AdalomoLoop = void(const AdalomoStep& step, const LomoNoise& noise, int64_t count, const LomoWeights& weights,
                         const float* gradient);

namespace baseline {
LomoLoop lomo_step;
SquaresLoop adalomo_squares;
NormsLoop adalomo_norms;
AdalomoLoop adalomo_step;
}  // namespace baseline
namespace avx2 {
LomoLoop lomo_step;
SquaresLoop adalomo_squares;
NormsLoop adalomo_norms;
AdalomoLoop adalomo_step;
}  // namespace avx2
namespace avx512 {
LomoLoop lomo_step;
SquaresLoop adalomo_squares;
NormsLoop adalomo_norms;
AdalomoLoop adalomo_step;
}  // namespace avx512

}  // namespace windlass
