// exact.h: a whole step of MeZO in its own order, for comparing with it (README.md, "MeZO's own order").
//
// In place it moves the weights to w + eps z, from there to the other side, and back, every operation rounded to the
// type that they are stored in: what comes back is not what was there, and that drift is part of its trajectory. The
// two points are a function of what was stored before, and so is what comes back. So nothing has to be written in
// place: points go into copies, and the walk is taken in full, drift and all, by the update of its step. The bits are
// those of the walk in place, wherever weights are and however often they are used in one step.
#pragma once

#include <cstddef>

#include "device/device.h"
#include "method/noise/noise.h"
#include "tensor/dtype.h"

namespace windlass {

struct ExactPoints {
    DType stored = DType::bf16;          // f32, bf16, f16
    const std::byte* weights = nullptr;  // as stored; they stay
    DType compute = DType::bf16;         // of the points: f32, bf16
    std::byte* plus = nullptr;           // null: not wanted
    std::byte* minus = nullptr;
};
// What the weights are behind the first and behind the second of the three probes. The term's coefficient is 1.
void write_exact_points(const NoiseRun& run, const NoiseTerm& term, double eps, const ExactPoints& points,
                        Stream& stream);

// The three probes and then the update, in place.
void take_exact_step(const NoiseRun& run, const NoiseTerm& term, double eps, const ExactRates& rates, WeightType type,
                     void* weights, Stream& stream);

}  // namespace windlass
