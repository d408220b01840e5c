#include "op/layer_norm.h"

#include "op/loops_inline.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

// The mean first, then the mean square of what is left: no cancellation where the mean is large.
LayerNormMoments moments_of(const LayerNormRow& row) {
    const float* x = row.x;
    const float count = static_cast<float>(row.size);
    const float mean = sum_of(row.size, [=](int64_t i) { return x[i]; }) / count;
    const float squares = sum_of(row.size, [=](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
    return {mean, 1.0f / __builtin_sqrtf(squares / count + row.eps)};
}

// y = w h + b with h = (x - mean) rstd
LayerNormMoments forward(const LayerNormRow& row, float* y) {
    const float *x = row.x, *w = row.w, *b = row.b;
    const LayerNormMoments m = moments_of(row);
#pragma omp simd
    for (int64_t i = 0; i < row.size; ++i) y[i] = w[i] * ((x[i] - m.mean) * m.rstd) + b[i];
    return m;
}

// dx = rstd (g - mean(g) - h mean(g h)) with g = w dy;  dw += dy h;  db += dy
void backward(const LayerNormRow& row, LayerNormMoments m, const float* grad_y, float* grad_x, float* grad_w,
              float* grad_b) {
    const float *x = row.x, *w = row.w, *dy = grad_y;
    const float count = static_cast<float>(row.size);
    float sum = 0, projection = 0;
#pragma omp simd reduction(+ : sum, projection)
    for (int64_t i = 0; i < row.size; ++i) {
        const float g = w[i] * dy[i];
        sum += g;
        projection += g * ((x[i] - m.mean) * m.rstd);
    }
    const float mean_g = sum / count, mean_gh = projection / count;
#pragma omp simd
    for (int64_t i = 0; i < row.size; ++i) {
        grad_x[i] = m.rstd * (w[i] * dy[i] - mean_g - (x[i] - m.mean) * m.rstd * mean_gh);
    }
    if (grad_w != nullptr) {
#pragma omp simd
        for (int64_t i = 0; i < row.size; ++i) grad_w[i] += dy[i] * ((x[i] - m.mean) * m.rstd);
    }
    if (grad_b != nullptr) {
#pragma omp simd
        for (int64_t i = 0; i < row.size; ++i) grad_b[i] += dy[i];
    }
}

// y' = w h' + w' h + b' with h' = rstd (x' - mean(x') - h mean(h x'))
void tangent(const LayerNormRow& row, const float* tangent_x, const float* tangent_w, const float* tangent_b,
             float* tangent_y) {
    const float *x = row.x, *w = row.w, *tx = tangent_x;
    const float count = static_cast<float>(row.size);
    const LayerNormMoments m = moments_of(row);
    float sum = 0, projection = 0;
#pragma omp simd reduction(+ : sum, projection)
    for (int64_t i = 0; i < row.size; ++i) {
        sum += tx[i];
        projection += tx[i] * ((x[i] - m.mean) * m.rstd);
    }
    const float mean_t = sum / count, mean_th = projection / count;
#pragma omp simd
    for (int64_t i = 0; i < row.size; ++i) {
        tangent_y[i] = w[i] * m.rstd * (tx[i] - mean_t - (x[i] - m.mean) * m.rstd * mean_th);
    }
    if (tangent_w != nullptr) {
#pragma omp simd
        for (int64_t i = 0; i < row.size; ++i) tangent_y[i] += tangent_w[i] * ((x[i] - m.mean) * m.rstd);
    }
    if (tangent_b != nullptr) {
#pragma omp simd
        for (int64_t i = 0; i < row.size; ++i) tangent_y[i] += tangent_b[i];
    }
}

}  // namespace

extern const LayerNormLoops kLayerNormLoops = {forward, backward, tangent};

}  // namespace WINDLASS_ISA
}  // namespace windlass
