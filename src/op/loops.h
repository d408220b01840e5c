// loops.h: the inner loops of the plain ops, over f32 numbers; compiled once per instruction set (*_isa.cpp).
//
// A loop sees f32 only: the drivers (loops_cpu.h) widen bf16 rows into buffers that stay in the first-level cache and
// round results once on the way back. Sources compiled per instruction set include this header, so it holds types
// and declarations, nothing that a linker could keep in the wrong flavour.
#pragma once

#include <cstdint>

namespace windlass {

// out[j][i] = f(in[0][i], in[1][i], ...) for i in [0, n). Inputs and outputs do not overlap.
using PointwiseLoop = void(const float* const* in, float* const* out, int64_t n);

// The loops of an op that works number by number.
struct PointwiseLoops {
    PointwiseLoop* forward;   // in -> out
    PointwiseLoop* backward;  // what backward reads, grad_out -> grad_in
    PointwiseLoop* tangent;   // in (unless linear), tangent_in -> tangent_out
};

// Between types. bf16 numbers are given as their bits; narrowing rounds to nearest, ties to even.
struct ConvertLoops {
    void (*widen)(const uint16_t* from, float* to, int64_t n);
    void (*narrow)(const float* from, uint16_t* to, int64_t n);
    void (*add_narrow)(const float* from, uint16_t* to, int64_t n);                // to = round(to + from)
    void (*add)(const float* from, float* to, int64_t n);                          // to += from
    void (*join)(const uint16_t* high, const int16_t* low, float* to, int64_t n);  // split masters, exactly
};

struct FactorLoops {
    // to[i] += scales[0] rows[i] + scales[1] rows[stride + i] + ... of `count` rows.
    void (*add_combination)(const float* rows, int64_t stride, const float* scales, int64_t count, float* to,
                            int64_t n);
};

namespace baseline {
extern const ConvertLoops kConvertLoops;
extern const FactorLoops kFactorLoops;
}  // namespace baseline
namespace avx2 {
extern const ConvertLoops kConvertLoops;
extern const FactorLoops kFactorLoops;
}  // namespace avx2
namespace avx512 {
extern const ConvertLoops kConvertLoops;
extern const FactorLoops kFactorLoops;
}  // namespace avx512

}  // namespace windlass
