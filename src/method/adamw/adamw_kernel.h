// adamw_kernel.h: one AdamW step over a run of elements, compiled once per instruction set.
//
// Plain functions and plain types only: this header is read by objects of every instruction set.
#pragma once

#include <cstdint>

namespace windlass {

struct AdamwCoefficients {
    float clip;   // the gradient is multiplied by this first
    float decay;  // 1 - lr * weight_decay
    float beta1, one_minus_beta1;
    float beta2, one_minus_beta2;
    float step_size;   // lr / (1 - beta1^t)
    float root_bias2;  // sqrt(1 - beta2^t)
    float epsilon;
    // The same, multiplied together, for the formats that round: first += gradient * first_gain,
    // second += (gradient * root_second_gain)^2, and a step of step_gain * first / (sqrt(second) + epsilon_gain).
    float first_gain;        // clip (1 - beta1)
    float root_second_gain;  // clip sqrt(1 - beta2)
    float step_gain;         // step_size root_bias2
    float epsilon_gain;      // epsilon root_bias2
};

// What random rounding is counted by (base/rng.h); block: a quarter of the run's first element in the model, which is
// the first of kAdamwBlock.
struct AdamwNoise {
    uint64_t seed;
    uint64_t block;
    uint32_t stream, step;
};

// Moments by format (README.md next to this file); every array starts with the run.
struct AdamwF32 {
    float *m, *v;
};
struct AdamwBf16 {
    uint16_t *m, *v;
};
struct AdamwBlocks {
    uint8_t* m;
    float* m_scale;  // one for every kAdamwBlock elements; a power of two, or 0 where all codes are
    uint8_t* v;
    float* v_scale;
};
inline constexpr int64_t kAdamwBlock = 256;

template <typename Moments>
using AdamwLoop = void(const AdamwCoefficients& c, const AdamwNoise& noise, int64_t count, uint16_t* hi, int16_t* lo,
                       const Moments& moments, const float* gradient);

namespace baseline {
AdamwLoop<AdamwF32> adamw_f32;
AdamwLoop<AdamwBf16> adamw_bf16;
AdamwLoop<AdamwBlocks> adamw_blocks;
}  // namespace baseline
namespace avx2 {
AdamwLoop<AdamwF32> adamw_f32;
AdamwLoop<AdamwBf16> adamw_bf16;
AdamwLoop<AdamwBlocks> adamw_blocks;
}  // namespace avx2
namespace avx512 {
AdamwLoop<AdamwF32> adamw_f32;
AdamwLoop<AdamwBf16> adamw_bf16;
AdamwLoop<AdamwBlocks> adamw_blocks;
}  // namespace avx512

}  // namespace windlass
