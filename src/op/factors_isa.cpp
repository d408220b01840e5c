#include "op/loops.h"
#include "op/loops_inline.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

constexpr int64_t kBlock = 1024;  // stays in the first-level cache while all rows are added to it

void add_block(const float* rows, int64_t stride, const float* scales, int64_t count, float* to, int64_t n) {
    int64_t k = 0;
    for (; k + 1 < count; k += 2) {
        const float *const a = rows + k * stride, *const b = a + stride;
        const float p = scales[k], q = scales[k + 1];
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) to[i] += p * a[i] + q * b[i];
    }
    if (k == count) return;
    const float* const last = rows + k * stride;
    const float p = scales[k];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] += p * last[i];
}

void add_combination(const float* rows, int64_t stride, const float* scales, int64_t count, float* to, int64_t n) {
    for (int64_t begin = 0; begin < n; begin += kBlock) {
        const int64_t left = n - begin;
        add_block(rows + begin, stride, scales, count, to + begin, left < kBlock ? left : kBlock);
    }
}

}  // namespace

extern const FactorLoops kFactorLoops = {add_combination};

}  // namespace WINDLASS_ISA
}  // namespace windlass
