#include "op/attention.h"

#include "op/loops_inline.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

inline void put(float* to, float x) {
    *to = x;
}

// To the nearest bf16, ties to even. Weights are finite or the NaN that arithmetic makes, whose rounding stays a NaN.
inline void put(uint16_t* to, float x) {
    const uint32_t u = __builtin_bit_cast(uint32_t, x);
    *to = static_cast<uint16_t>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

template <typename Weight>
inline void mask(ScoreRange range, Weight* weights) {
    for (int64_t i = 0; i < range.begin; ++i) weights[i] = 0;
    for (int64_t i = range.end; i < range.size; ++i) weights[i] = 0;
}

// The maximum goes before the scale does: the scores that count most lose least.
template <typename Weight>
float softmax(const float* scores, ScoreRange range, float scale, RunningSoftmax& state, Weight* weights) {
    mask(range, weights);
    if (range.begin >= range.end) return 1;
    float greatest = scores[range.begin];
#pragma omp simd reduction(max : greatest)
    for (int64_t i = range.begin; i < range.end; ++i) greatest = scores[i] > greatest ? scores[i] : greatest;
    const float max = state.max > greatest ? state.max : greatest;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = range.begin; i < range.end; ++i) {
        const float weight = exp_float((scores[i] - max) * scale);
        put(weights + i, weight);
        sum += weight;
    }
    const float factor = state.sum == 0 ? 0 : exp_float((state.max - max) * scale);
    state.sum = state.sum * factor + sum;
    state.max = max;
    return factor;
}

template <typename Weight>
void backward(const float* scores, const float* dp, ScoreRange range, float scale, const float* log_sum,
              const float* delta, Weight* p, Weight* ds) {
    mask(range, p);
    mask(range, ds);
#pragma omp simd
    for (int64_t i = range.begin; i < range.end; ++i) {
        const float weight = exp_float(scores[i] * scale - log_sum[i]);
        put(p + i, weight);
        put(ds + i, weight * scale * (dp[i] - delta[i]));
    }
}

template <typename Weight>
float tangent(const float* scores, const float* changes, ScoreRange range, float scale, float log_sum, Weight* p,
              Weight* dp) {
    mask(range, p);
    mask(range, dp);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = range.begin; i < range.end; ++i) {
        const float weight = exp_float(scores[i] * scale - log_sum);
        const float change = weight * scale * changes[i];
        put(p + i, weight);
        put(dp + i, change);
        sum += change;
    }
    return sum;
}

float dot(const float* x, const float* y, int64_t n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
    return sum;
}

void add_scaled(float scale, const float* x, float* y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] += scale * x[i];
}

void scale_all(float scale, float* x, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) x[i] *= scale;
}

}  // namespace

extern const AttentionLoops kAttentionLoops = {
    .narrow = {softmax<uint16_t>, backward<uint16_t>, tangent<uint16_t>},
    .wide = {softmax<float>, backward<float>, tangent<float>},
    .dot = dot,
    .add_scaled = add_scaled,
    .scale = scale_all,
};

}  // namespace WINDLASS_ISA
}  // namespace windlass
