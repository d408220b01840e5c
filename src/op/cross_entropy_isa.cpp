#include "op/cross_entropy.h"

#include "op/loops_inline.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

// Sums over a vocabulary are taken in f32 over so many numbers, and of those sums in double.
constexpr int64_t kBlock = 1024;

inline int64_t block_end(int64_t begin, int64_t n) {
    return begin + kBlock < n ? begin + kBlock : n;
}

double log_sum_exp(const float* x, int64_t n) {
    float greatest = x[0];
#pragma omp simd reduction(max : greatest)
    for (int64_t i = 0; i < n; ++i) greatest = x[i] > greatest ? x[i] : greatest;
    double total = 0;
    for (int64_t begin = 0; begin < n; begin += kBlock) {
        const int64_t end = block_end(begin, n);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = begin; i < end; ++i) sum += exp_float(x[i] - greatest);
        total += sum;
    }
    return greatest + __builtin_log(total);
}

void softmax(const float* x, float* y, int64_t n, float log_sum, float scale) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = scale * exp_float(x[i] - log_sum);
}

double expectation(const float* x, const float* d, int64_t n, float log_sum) {
    double total = 0;
    for (int64_t begin = 0; begin < n; begin += kBlock) {
        const int64_t end = block_end(begin, n);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = begin; i < end; ++i) sum += exp_float(x[i] - log_sum) * d[i];
        total += sum;
    }
    return total;
}

}  // namespace

extern const CrossEntropyLoops kCrossEntropyLoops = {log_sum_exp, softmax, expectation};

}  // namespace WINDLASS_ISA
}  // namespace windlass
