#include "op/magnitude.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

double squares(const float* x, int64_t n) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return sum;
}

void add_squares(const float* x, double* sums, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
}

void forward(const float* const* in, float* const* out, int64_t n) {
    const float *c = in[0], *b = in[1], *x = in[2];
    float* to = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = c[i] * x[i] + (1 - c[i]) * b[i];
}

void backward(const float* const* in, float* const* out, int64_t n) {
    const float *c = in[0], *dy = in[1];
    float* to = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = c[i] * dy[i];
}

void tangent(const float* const* in, float* const* out, int64_t n) {
    const float *c = in[0], *e = in[1], *b = in[2], *x = in[3], *dx = in[4];
    float* to = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = c[i] * dx[i] + e[i] * (x[i] - b[i]);
}

void add_gradient(const float* grad_y, const float* x, const float* b, const float* inverse, float* grad_m, int64_t n) {
    if (b == nullptr) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) grad_m[i] += grad_y[i] * x[i] * inverse[i];
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) grad_m[i] += grad_y[i] * (x[i] - b[i]) * inverse[i];
}

}  // namespace

extern const MagnitudeLoops kMagnitudeLoops = {squares, add_squares, forward, backward, tangent, add_gradient};

}  // namespace WINDLASS_ISA
}  // namespace windlass
