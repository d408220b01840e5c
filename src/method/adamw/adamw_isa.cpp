#include <cmath>
#include <cstring>

#include "method/adamw/adamw_kernel.h"

namespace windlass::WINDLASS_ISA {

// Only + - * / sqrt, each rounded once (the build turns contraction off): the same bits on every instruction set.
void adamw_loop(const AdamwCoefficients& c, int64_t count, uint16_t* __restrict hi, int16_t* __restrict lo,
                float* __restrict m, float* __restrict v, const float* __restrict gradient) {
    const AdamwCoefficients k = c;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t joined =
            (static_cast<uint32_t>(hi[i]) << 16) + static_cast<uint32_t>(static_cast<int32_t>(lo[i]));
        float p;
        std::memcpy(&p, &joined, sizeof p);
        const float g = gradient[i] * k.clip;
        const float first = m[i] * k.beta1 + g * k.one_minus_beta1;
        const float second = v[i] * k.beta2 + g * g * k.one_minus_beta2;
        m[i] = first;
        v[i] = second;
        p = p * k.decay - k.step_size * (first / (std::sqrt(second) / k.root_bias2 + k.epsilon));
        uint32_t u;
        std::memcpy(&u, &p, sizeof u);
        const uint32_t high = (u + 0x8000u) >> 16;
        hi[i] = static_cast<uint16_t>(high);
        lo[i] = static_cast<int16_t>(static_cast<uint16_t>(u - (high << 16)));
    }
}

}  // namespace windlass::WINDLASS_ISA
