// noise.h: what methods without gradients do to weights: directions from counters, probes, and updates along them.
//
// A direction is never kept: it is rebuilt wherever it is needed, from the run's seed, a step and a number. The
// formulas and the counters are in README.md. Weights are f32, bf16, f16, scaled e4m3 or nf4 as they are stored, nf4
// read but not written; nothing else is read or written. Threads: pieces are shared among the stream's team; bits
// depend neither on the team, nor on the instruction set, nor on how a parameter is cut into runs. Failure: none,
// beyond arguments that contradict each other, which are bugs.
#pragma once

#include <optional>
#include <string_view>

#include "base/error.h"
#include "device/device.h"
#include "perturb/noise_kernel.h"
#include "tensor/dtype.h"

namespace windlass {

// "gaussian", "rademacher", "low_rank": as in configuration; the others are no kinds of their own there.
std::string_view noise_kind_name(NoiseKind kind);
std::optional<NoiseKind> noise_kind_from_name(std::string_view name);

// The names that kernels know f32, bf16, f16, f8_e4m3 and nf4 by. In line: cells for CUDA are linked without this
// floor.
inline WeightType weight_type(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return WeightType::f32;
        case DType::bf16:
            return WeightType::bf16;
        case DType::f16:
            return WeightType::f16;
        case DType::f8_e4m3:
            return WeightType::f8;
        case DType::nf4:
            return WeightType::nf4;
        default:
            break;
    }
    WINDLASS_CHECK(false, "weights are not {}", dtype_name(dtype));
    return WeightType::f32;
}

// A term's coefficient for directions of factors: c / sqrt(rank).
float low_rank_coefficient(double c, int64_t rank);

// The entries of the factor u (left_factor, [rank, rows]) or v (right_factor, [rank, cols]) of a low_rank run's whole
// matrix, for write_direction. The rank may not exceed the matrix's shorter side.
NoiseRun factor_run(const NoiseRun& run, NoiseKind factor);

// Writes c z: [count], f32 or bf16. For tangents, for factors, and for looking at directions. Here and below, a
// low_rank term without factors draws them (factors.h); in one pass all do, or none.
void write_direction(const NoiseRun& run, const NoiseTerm& term, WeightType type, void* out, Stream& stream);

// One pass over memory: reads weights, takes the pass's steps one after another, each rounded at random to the weights'
// type (f32: to the nearest) by its own step's counters, writes the weights, and writes both probed copies of what is
// now stored. A pass may leave out the steps, or the probe, or either copy.
void update_and_probe(const NoiseRun& run, const NoisePass& pass, Stream& stream);

}  // namespace windlass
