#include "op/tanh.h"

#include "op/loops_inline.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

void forward(const float* const* in, float* const* out, int64_t n) {
    const float* x = in[0];
    float* y = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = tanh_float(x[i]);
}

// dx = (1 - y^2) dy; in: y, dy
void backward(const float* const* in, float* const* out, int64_t n) {
    const float *y = in[0], *grad = in[1];
    float* x = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) x[i] = grad[i] * (1.0f - y[i] * y[i]);
}

// y' = (1 - tanh(x)^2) x'; in: x, x'
void tangent(const float* const* in, float* const* out, int64_t n) {
    const float *x = in[0], *change = in[1];
    float* y = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
        const float t = tanh_float(x[i]);
        y[i] = change[i] * (1.0f - t * t);
    }
}

}  // namespace

extern const PointwiseLoops kTanhLoops = {forward, backward, tangent};

}  // namespace WINDLASS_ISA
}  // namespace windlass
