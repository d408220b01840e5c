// round_gradient_kernel.h: gradients of a run of elements rounded, compiled once per instruction set.
//
// Plain functions and plain types only: this header is read by objects of every instruction set and by kernels.
#pragma once

#include <cstdint>

namespace windlass {

inline constexpr int64_t kEightBitGradients = 256, kFourBitGradients = 64;  // numbers of a scale
inline constexpr int kEightBitLevels = 127, kFourBitLevels = 7;

// What random rounding is counted by (base/rng.h); block: a quarter of the run's first element in the model.
struct GradientNoise {
    uint64_t seed;
    uint64_t block;
    uint32_t stream, step;
};

// A run begins at a multiple of kEightBitGradients. `narrow`, and `scales` with it, may be null.
struct GradientRun {
    int64_t count;
    float* sum;
    uint8_t* narrow;
    uint16_t* scales;  // bf16
};
using GradientLoop = void(const GradientNoise& noise, const GradientRun& run);

// wide <- narrow.
struct WideRun {
    int64_t count;
    const uint8_t* narrow;
    const uint16_t* scales;
    float* wide;
};
using WidenLoop = void(const WideRun& run);

namespace baseline {
GradientLoop round_to_bf16, round_to_i8, round_to_i4;
WidenLoop widen_bf16, widen_i8, widen_i4;
}  // namespace baseline
namespace avx2 {
GradientLoop round_to_bf16, round_to_i8, round_to_i4;
WidenLoop widen_bf16, widen_i8, widen_i4;
}  // namespace avx2
namespace avx512 {
GradientLoop round_to_bf16, round_to_i8, round_to_i4;
WidenLoop widen_bf16, widen_i8, widen_i4;
}  // namespace avx512

}  // namespace windlass
