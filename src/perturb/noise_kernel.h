// noise_kernel.h: directions by counter, and one pass over weights with them, compiled once per instruction set.
//
// Plain functions and plain types only: this header is read by objects of every instruction set. The formulas are in
// README.md next to this file. What an element gets depends on its index in the model alone: a run may begin and end
// anywhere.
#pragma once

#include <cstdint>

namespace windlass {

// What a direction's numbers are.
enum class NoiseKind : uint8_t {
    gaussian,     // N(0, 1)
    rademacher,   // +1 or -1
    low_rank,     // u v^T / sqrt(rank), of factors that are given, or drawn where they are used (factors.h)
    left_factor,  // the entries of u and v themselves: N(0, 1), from counters of their own
    right_factor,
};

// f8: e4m3 (tensor/e4m3.h); nf4: blocks of 4-bit numbers (tensor/nf4.h), which are only read.
enum class WeightType : uint8_t { f32, bf16, f16, f8, nf4 };

// Elements of one parameter, and what directions over them are.
struct NoiseRun {
    uint64_t seed;
    NoiseKind kind;
    int64_t element;  // index in the model of the run's first element
    int64_t count;
    // low_rank only: the parameter is a matrix [rows, cols], the run begins at its element `first`.
    int64_t first, rows, cols, rank;
    bool keeps_left;  // u too is drawn for many steps; each has rank numbers of its own that u's ranks are scaled by
};

// A direction times a number.
struct NoiseTerm {
    uint32_t step, direction;  // what the direction is counted by
    float coefficient;         // low_rank: divided by sqrt(rank)
    // low_rank only: the factors, rank by rank; null where they are to be drawn.
    const float* u;      // [rank, rows]
    const float* v;      // [rank, cols]
    uint32_t kept_step;  // the first step for which a drawn factor is kept
    // low_rank whose u is kept and drawn: what its ranks are scaled by, [rank]; null: the step's own numbers.
    const float* scales;
};

// One step in the moments of a later update: the next `term_count` terms add up to what it found, u.
struct NoiseMoment {
    int64_t term_count;
    float first, second;  // its shares: m <- m + first u, v <- v + second u^2
};

// One update: w <- round((w - S) - decay w), where S = c_1 z_1 + c_2 z_2 + ..., or, with moments, m / (sqrt(v) +
// epsilon).
struct NoiseStep {
    uint32_t step;  // what the rounding is counted by
    float decay;    // 0 leaves the product out
    const NoiseTerm* terms;
    int64_t term_count;
    const NoiseMoment* moments = nullptr;  // with as many terms as there are; null without moments
    int64_t moment_count = 0;
    float epsilon = 0;  // above 0 with moments
    // The terms are of several steps, those of one direction and one v side by side: their u are added, each times its
    // coefficient, before they are multiplied with v.
    bool adds_left = false;
};

// Weights are read once, updated by each step in turn, written, and probed. Arrays start with the run.
struct NoisePass {
    WeightType type;         // of the weights
    int scale_exponent = 0;  // f8: weights are the numbers that are kept, times 2^scale_exponent
    const void* weights;     // read only, unless `updated` is the same
    int64_t skip = 0;        // nf4: elements from the first of `weights`, which begins a block, to the run's first
    // Null where there are no steps; or where nothing is stored: then the steps are one, whose result is not rounded to
    // the weights' type before it is probed.
    void* updated;
    const NoiseStep* steps;
    int64_t step_count;
    const NoiseTerm* probe;  // null without one
    WeightType probe_type;   // f32 or bf16: of the two copies below, to the nearest; null: no copy
    void* plus;              // w + c z
    void* minus;             // w - c z
    void* plain = nullptr;   // w
    // Weights larger than `limit` are neither moved nor probed; each step decides by the weights that it begins with.
    bool masks;
    float limit;
};

// `count` numbers c z, f32 or bf16.
using NoiseDirection = void(const NoiseRun& run, const NoiseTerm& term, WeightType type, void* out);
using NoisePassLoop = void(const NoiseRun& run, const NoisePass& pass);
// `count` numbers of nf4, from the beginning of a block on, as f32 or as bf16 to the nearest, ties away from zero.
using Nf4Copy = void(const void* blocks, int64_t count, WeightType type, void* out);
// RandomStream::noise and ::rounding; the kind of number is above the blocks' lower bits.
inline constexpr uint32_t kNoiseStream = 1, kNoiseRoundingStream = 2;
inline constexpr int kNoiseKindShift = 46;

namespace baseline {
NoiseDirection noise_direction;
NoisePassLoop noise_pass;
Nf4Copy nf4_copy;
}  // namespace baseline
namespace avx2 {
NoiseDirection noise_direction;
NoisePassLoop noise_pass;
Nf4Copy nf4_copy;
}  // namespace avx2
namespace avx512 {
NoiseDirection noise_direction;
NoisePassLoop noise_pass;
Nf4Copy nf4_copy;
}  // namespace avx512

}  // namespace windlass
