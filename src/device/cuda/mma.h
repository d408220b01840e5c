// mma.h: products of small matrices of bf16 by a warp, and its loads of them. For .cu files alone; tests:
// tests/simt/matrix.h.
//
// Fragments as the PTX ISA has them (mma.m16n8k16): of lane l, with g = l / 4 and t = l % 4,
//   a [16, 16]  four pairs of numbers at (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), along a row
//   b [16, 8]   two pairs at (2t, g), (2t + 8, g), along a column
//   d [16, 8]   four f32 at (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
#pragma once

#include "device/cuda/kernel.h"

namespace windlass {

// d += a b, products exact and sums in f32.
__device__ inline void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#ifdef __CUDACC__
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    simt::multiply_add(WINDLASS_SITE, d, a, {b0, b1});
#endif
}

// Four matrices [8, 8] of shared memory. Lane l names row l % 8 of matrix l / 8, 16-byte aligned, and gets of each
// matrix the pair at (l / 4, 2 (l % 4)): along a row, or, transposed, along a column.
__device__ inline void load_matrices(uint32_t (&to)[4], const bf16* row) {
#ifdef __CUDACC__
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
                 : "memory");
#else
    simt::load_matrices(WINDLASS_SITE, to, row);
#endif
}
__device__ inline void load_matrices_transposed(uint32_t (&to)[4], const bf16* row) {
#ifdef __CUDACC__
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(row)))
                 : "memory");
#else
    simt::load_matrices_transposed(WINDLASS_SITE, to, row);
#endif
}

// Two numbers as a pair of bf16, the first in the low half.
__device__ inline uint32_t pack_pair(float first, float second) {
#ifdef __CUDACC__
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
#else
    return static_cast<uint32_t>(narrow<bf16>(first).bits) | static_cast<uint32_t>(narrow<bf16>(second).bits) << 16;
#endif
}

// 2^x to about 2^-22 of itself; 0 below 2^-126.
__device__ inline float exp2_quick(float x) {
#ifdef __CUDACC__
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
#else
    return exp2f(x);
#endif
}

// tanh x to about 2^-22.
__device__ inline float tanh_quick(float x) {
    const float power = exp2_quick(2.88539008f * x);  // e^(2x)
#ifdef __CUDACC__
    return 1.0f - __fdividef(2.0f, power + 1.0f);
#else
    return 1.0f - 2.0f / (power + 1.0f);
#endif
}

}  // namespace windlass
