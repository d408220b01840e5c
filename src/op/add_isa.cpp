#include "op/add.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

// in: a, b (or their tangents)
void sum(const float* const* in, float* const* out, int64_t n) {
    const float *a = in[0], *b = in[1];
    float* y = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

// in: grad_out; out: grad_a, grad_b
void copy_to_both(const float* const* in, float* const* out, int64_t n) {
    const float* grad = in[0];
    float *grad_a = out[0], *grad_b = out[1];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
        grad_a[i] = grad[i];
        grad_b[i] = grad[i];
    }
}

}  // namespace

extern const PointwiseLoops kAddLoops = {sum, copy_to_both, sum};

}  // namespace WINDLASS_ISA
}  // namespace windlass
