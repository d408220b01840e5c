#include "op/rms_norm.h"

#include "op/loops_inline.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

float dot(const float* a, const float* b, int64_t n) {
    return sum_of(n, [=](int64_t i) { return a[i] * b[i]; });
}

float rstd_of(const RmsNormRow& row, const float* x) {
    return 1.0f / __builtin_sqrtf(dot(x, x, row.size) / static_cast<float>(row.size) + row.eps);
}

// y = x r w with r = (mean(x^2) + eps)^(-1/2)
void forward(const RmsNormRow& row, float* rstd, float* y) {
    for (int64_t group = 0; group < row.groups; ++group) {
        const float* x = row.x + group * row.size;
        float* to = y + group * row.size;
        const float r = rstd_of(row, x);
        if (rstd != nullptr) rstd[group] = r;
#pragma omp simd
        for (int64_t i = 0; i < row.size; ++i) to[i] = x[i] * r * row.w[i];
    }
}

// dx = r (g - x r^2 mean(g x)) with g = w dy;  dw += dy x r
void backward(const RmsNormRow& row, const float* rstd, const float* grad_y, float* grad_x, float* grad_w) {
    for (int64_t group = 0; group < row.groups; ++group) {
        const int64_t at = group * row.size;
        const float *x = row.x + at, *dy = grad_y + at, *w = row.w;
        float* dx = grad_x + at;
        const float r = rstd[group];
        const float sum = sum_of(row.size, [=](int64_t i) { return w[i] * dy[i] * x[i]; });
        const float shift = sum / static_cast<float>(row.size) * r * r;
#pragma omp simd
        for (int64_t i = 0; i < row.size; ++i) dx[i] = r * (w[i] * dy[i] - x[i] * shift);
        if (grad_w == nullptr) continue;
#pragma omp simd
        for (int64_t i = 0; i < row.size; ++i) grad_w[i] += dy[i] * (x[i] * r);
    }
}

// y' = w r (x' - x r^2 mean(x x')) + w' x r
void tangent(const RmsNormRow& row, const float* tangent_x, const float* tangent_w, float* tangent_y) {
    for (int64_t group = 0; group < row.groups; ++group) {
        const int64_t at = group * row.size;
        const float *x = row.x + at, *tx = tangent_x + at, *w = row.w;
        float* ty = tangent_y + at;
        const float r = rstd_of(row, x);
        const float shift = dot(x, tx, row.size) / static_cast<float>(row.size) * r * r;
#pragma omp simd
        for (int64_t i = 0; i < row.size; ++i) ty[i] = w[i] * r * (tx[i] - x[i] * shift);
        if (tangent_w == nullptr) continue;
#pragma omp simd
        for (int64_t i = 0; i < row.size; ++i) ty[i] += tangent_w[i] * (x[i] * r);
    }
}

}  // namespace

extern const RmsNormLoops kRmsNormLoops = {forward, backward, tangent};

}  // namespace WINDLASS_ISA
}  // namespace windlass
