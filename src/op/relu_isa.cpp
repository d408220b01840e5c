#include "op/relu.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

// A NaN passes: the comparison is written so that it fails for one.
void forward(const float* const* in, float* const* out, int64_t n) {
    const float* x = in[0];
    float* y = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] <= 0.0f ? 0.0f : x[i];
}

// in: sign, slope: x or y, which are positive together, and what passes where they are.
void pass_where_positive(const float* const* in, float* const* out, int64_t n) {
    const float *sign = in[0], *slope = in[1];
    float* y = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
        const float passing = slope[i];
        y[i] = sign[i] <= 0.0f ? 0.0f : passing;
    }
}

}  // namespace

extern const PointwiseLoops kReluLoops = {forward, pass_where_positive, pass_where_positive};

}  // namespace WINDLASS_ISA
}  // namespace windlass
