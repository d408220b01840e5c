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
};

using AdamwLoop = void(const AdamwCoefficients& c, int64_t count, uint16_t* hi, int16_t* lo, float* m, float* v,
                       const float* gradient);

namespace baseline {
AdamwLoop adamw_loop;
}
namespace avx2 {
AdamwLoop adamw_loop;
}
namespace avx512 {
AdamwLoop adamw_loop;
}

}  // namespace windlass
