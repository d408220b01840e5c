#include "op/scale.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

void by_factor(float factor, const float* from, float* to, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = factor * from[i];
}

void product(const float* const* in, float* const* out, int64_t n) {
    const float *a = in[0], *b = in[1];
    float* to = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = a[i] * b[i];
}

void sum_of_products(const float* const* in, float* const* out, int64_t n) {
    const float *a = in[0], *b = in[1], *c = in[2], *d = in[3];
    float* to = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = a[i] * b[i] + c[i] * d[i];
}

void add_weight_gradient(float factor, const float* grad_y, const float* x, float* grad_w, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) grad_w[i] += factor * grad_y[i] * x[i];
}

}  // namespace

extern const ScaleLoops kScaleLoops = {by_factor, product, sum_of_products, add_weight_gradient};

}  // namespace WINDLASS_ISA
}  // namespace windlass
