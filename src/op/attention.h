// attention.h: the CPU kernels of attention and their loops; what they compute: ops.h.
#pragma once

#include <cstdint>

namespace windlass {

class Stream;
struct OpCall;

void attention_forward_cpu(const OpCall& call, Stream& stream);
void attention_backward_cpu(const OpCall& call, Stream& stream);
void attention_tangent_cpu(const OpCall& call, Stream& stream);

// Part of a row of scores: numbers [begin, end) of `size` count, the others are masked and get weight zero.
struct ScoreRange {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t size = 0;
};

// The softmax of a row whose scores arrive tile by tile.
struct RunningSoftmax {
    float max = -__builtin_inff();  // of the scores so far
    float sum = 0;                  // of exp(scale * (score - max))
};

// Loops that write weights write them in the computation's type: bf16 bits or f32.
template <typename Weight>
struct AttentionWeightLoops {
    // weights = exp(scale * (scores - max)), with max and sum brought up to date. Returns the factor by which what was
    // summed under the old maximum must be multiplied.
    float (*softmax)(const float* scores, ScoreRange range, float scale, RunningSoftmax& state, Weight* weights);
    // For one key and the queries [begin, end): p = exp(scale * scores - log_sum[query]),
    // ds = scale * p * (dp - delta[query]).
    void (*backward)(const float* scores, const float* dp, ScoreRange range, float scale, const float* log_sum,
                     const float* delta, Weight* p, Weight* ds);
    // p = exp(scale * scores - log_sum), dp = p * scale * changes; returns the sum of dp.
    float (*tangent)(const float* scores, const float* changes, ScoreRange range, float scale, float log_sum, Weight* p,
                     Weight* dp);
};

struct AttentionLoops {
    AttentionWeightLoops<uint16_t> narrow;
    AttentionWeightLoops<float> wide;
    float (*dot)(const float* x, const float* y, int64_t n);
    void (*add_scaled)(float scale, const float* x, float* y, int64_t n);  // y += scale * x
    void (*scale)(float scale, float* x, int64_t n);
};

namespace baseline {
extern const AttentionLoops kAttentionLoops;
}
namespace avx2 {
extern const AttentionLoops kAttentionLoops;
}
namespace avx512 {
extern const AttentionLoops kAttentionLoops;
}

}  // namespace windlass
