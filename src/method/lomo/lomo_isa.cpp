// Only + - * / sqrt, each rounded once (the build turns contraction off), and integers: the same bits on every
// instruction set.
#include "method/lomo/lomo_vector.h"

namespace windlass::WINDLASS_ISA {

// W <- round((1 - lr w) W - lr g)  (README.md)
void lomo_step(const LomoStep& step, const LomoNoise& noise, int64_t count, const LomoWeights& weights,
               const float* __restrict gradient) {
    with_kept(weights, [&](auto kept) {
        for_blocks(kept, noise, count, [&](int64_t at, int64_t end, const uint32_t* bits) {
            const float rate = step.rate, decay = step.decay;
            const float* __restrict const g = gradient + at;
            for (int64_t i = 0; i < end - at; ++i) kept.write(at + i, kept.read(at + i) * decay - g[i] * rate, bits[i]);
        });
    });
}

}  // namespace windlass::WINDLASS_ISA
