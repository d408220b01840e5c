#include "op/cross_entropy.h"

#include "op/exp_vector.h"
#include "op/loops_inline.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

constexpr float kLog2E = 1.44269504f;
// Sums over a vocabulary are taken in f32 over kBlock numbers, and those sums are added in double.
constexpr int64_t kBlock = 1024;
constexpr Floats kNone = {};

inline int64_t block_end(int64_t begin, int64_t n) {
    return begin + kBlock < n ? begin + kBlock : n;
}

// The numbers from i on, up to n; `missing` beyond.
[[gnu::always_inline]] inline Floats load_tail(const float* x, int64_t i, int64_t n, float missing) {
    Floats tail = kNone + missing;
    for (int lane = 0; i < n; ++i, ++lane) tail[lane] = x[i];
    return tail;
}

// The sum of term(x) over vectors of a row; the last one is filled up with numbers whose term is zero.
template <typename Term>
[[gnu::always_inline]] inline double sum_over(int64_t n, Term term) {
    double total = 0;
    for (int64_t begin = 0; begin < n; begin += kBlock) {
        const int64_t end = block_end(begin, n);
        Floats even = kNone, odd = kNone;
        int64_t i = begin;
        for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
            even += term(i, true);
            odd += term(i + kLanes, true);
        }
        for (; i + kLanes <= end; i += kLanes) even += term(i, true);
        if (i < end) odd += term(i, false);
        total += static_cast<double>(sum_of_lanes(even + odd));
    }
    return total;
}

float greatest_of(const float* x, int64_t n) {
    Floats even = kNone - __builtin_inff(), odd = even;
    int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
        even = greater_of(load(x + i), even);
        odd = greater_of(load(x + i + kLanes), odd);
    }
    for (; i < n; i += kLanes) even = greater_of(load_tail(x, i, i + kLanes < n ? i + kLanes : n, x[0]), even);
    return greatest_lane(greater_of(even, odd));
}

double log_sum_exp(const float* x, int64_t n) {
    const float greatest = greatest_of(x, n);
    const double sum = sum_over(
        n, [&](int64_t i, bool whole) __attribute__((always_inline)) {
            const Floats logits = whole ? load(x + i) : load_tail(x, i, n, -__builtin_inff());
            return exp2_of<7>((logits - greatest) * kLog2E);
        });
    return static_cast<double>(greatest) + __builtin_log(sum);
}

void softmax(const float* x, float* y, int64_t n, float log_sum, float scale) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store(y + i, exp2_of<7>((load(x + i) - log_sum) * kLog2E) * scale);
    const Floats last = exp2_of<7>((load_tail(x, i, n, 0) - log_sum) * kLog2E) * scale;
    for (int lane = 0; i < n; ++i, ++lane) y[i] = last[lane];
}

double expectation(const float* x, const float* d, int64_t n, float log_sum) {
    return sum_over(
        n, [&](int64_t i, bool whole) __attribute__((always_inline)) {
            const Floats logits = whole ? load(x + i) : load_tail(x, i, n, -__builtin_inff());
            const Floats values = whole ? load(d + i) : load_tail(d, i, n, 0);
            return exp2_of<7>((logits - log_sum) * kLog2E) * values;
        });
}

void apply_shape(LogitShape shape, float* x, int64_t n) {
    const float cap = shape.softcap, scale = cap > 0 ? shape.scale / cap : shape.scale;
    if (cap > 0) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) x[i] = cap * tanh_float(scale * x[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) x[i] *= scale;
    }
}

void times_slope(LogitShape shape, const float* z, float* d, int64_t n) {
    const float scale = shape.scale, inverse = shape.softcap > 0 ? 1.0f / shape.softcap : 0.0f;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
        const float t = z[i] * inverse;
        d[i] *= scale * (1.0f - t * t);
    }
}

}  // namespace

extern const CrossEntropyLoops kCrossEntropyLoops = {log_sum_exp, softmax,     expectation,
                                                     greatest_of, apply_shape, times_slope};

}  // namespace WINDLASS_ISA
}  // namespace windlass
