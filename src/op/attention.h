// attention.h: the CPU kernels of attention and their loops; what they compute: ops.h.
#pragma once

#include <cstdint>

namespace windlass {

class Stream;
struct OpCall;

void attention_forward_cpu(const OpCall& call, Stream& stream);
void attention_backward_cpu(const OpCall& call, Stream& stream);
void attention_tangent_cpu(const OpCall& call, Stream& stream);

// The columns of a row of scores that are seen; the others are masked, and get weight zero.
struct SeenRange {
    int32_t begin = 0;
    int32_t end = 0;
};

// Products of queries and keys. Rows are a multiple of 16 numbers apart; those after the last column are masked.
struct ScoreTile {
    int64_t rows = 0;
    int64_t stride = 0;
    float scale = 0;
    const SeenRange* seen = nullptr;  // [rows]
    const float* scores = nullptr;    // [rows, stride]
    float softcap = 0;                // not 0: the scores are already c tanh(scale * product / c)
};
inline constexpr int64_t kScoreStep = 16;

// The softmax of a row whose scores arrive tile by tile.
struct RunningSoftmax {
    float max = -__builtin_inff();  // of the scores so far
    float sum = 0;                  // of exp(scale * (score - max))
};

// Rows of one head inside wider ones.
template <typename Number>
struct Rows {
    Number* data = nullptr;
    int64_t count = 0;
    int64_t size = 0;    // numbers of a row
    int64_t stride = 0;  // to the next row
};

// Loops that read and write weights [rows, stride] and values in the computation's type: bf16 bits or f32. Where scores
// are capped, the scale of exponents is one, and that of ds and dp goes with the slope 1 - (score / c)^2.
template <typename Weight>
struct AttentionWeightLoops {
    // Rows are queries: weights = exp(scale * (scores - max)), with max and sum of each row brought up to date. What
    // was summed under the old maximum is to be multiplied by factors [rows].
    void (*softmax)(const ScoreTile& tile, RunningSoftmax* states, float* factors, Weight* weights);
    // Rows are keys, columns queries: p = exp(scale * scores - log_sum), ds = scale * p * (dp - delta); log_sum and
    // delta [stride].
    void (*backward)(const ScoreTile& tile, const float* dp, const float* log_sum, const float* delta, Weight* p,
                     Weight* ds);
    // Rows are queries: p = exp(scale * scores - log_sum), dp = p * scale * changes, sums += sum of dp by rows;
    // log_sum and sums [rows].
    void (*tangent)(const ScoreTile& tile, const float* changes, const float* log_sum, Weight* p, Weight* dp,
                    float* sums);
    // to (+)= factors * from, row by row; without factors they are one. from [count, size]
    void (*write_rows)(const float* from, const float* factors, bool add, Rows<Weight> to);
    // products [count] of x's rows with y's
    void (*dots)(Rows<const Weight> x, Rows<const Weight> y, float* products);
    // The first row that holds an infinity or a NaN; x.count: none does.
    int64_t (*first_fault)(Rows<const Weight> x);
    // sums [size] += weights [count] times rows
    void (*mix)(const Weight* weights, Rows<const Weight> rows, float* sums);
};

struct AttentionLoops {
    AttentionWeightLoops<uint16_t> narrow;
    AttentionWeightLoops<float> wide;
    void (*add_scaled)(float scale, const float* x, float* y, int64_t n);  // y += scale * x
    void (*scale)(float scale, float* x, int64_t n);
    void (*cap)(float scale, float softcap, float* x, int64_t n);  // x = c tanh(scale * x / c)
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
