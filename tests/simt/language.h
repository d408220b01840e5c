// language.h: the words of CUDA C++ for the compiler of the host, which reads .cu files with this in front.
//
// A kernel is a plain function; each of its threads is a fiber (block.h). What is not here, kernels do not use.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/simt/block.h"
#include "tests/simt/hopper.h"
#include "tests/simt/matrix.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)

#define threadIdx (::windlass::simt::this_thread().index)
#define blockIdx (::windlass::simt::this_thread().block_index)
#define blockDim (::windlass::simt::this_thread().block_size)
#define gridDim (::windlass::simt::this_thread().grid_size)

#define WINDLASS_SITE (::windlass::simt::Site{__FILE__, __LINE__})
#define __syncthreads() ::windlass::simt::sync_block(WINDLASS_SITE)
#define __syncwarp(...) ::windlass::simt::sync_warp(WINDLASS_SITE)
#define __shfl_xor_sync(mask, x, lanes) \
    ::windlass::simt::shuffle(WINDLASS_SITE, mask, x, ::windlass::simt::this_thread().lane ^ (lanes))
#define __shfl_sync(mask, x, from) ::windlass::simt::shuffle(WINDLASS_SITE, mask, x, from)
#define __ballot_sync(mask, holds) ::windlass::simt::ballot(WINDLASS_SITE, mask, holds)

inline float __uint_as_float(uint32_t bits) {
    return std::bit_cast<float>(bits);
}
inline uint32_t __float_as_uint(float x) {
    return std::bit_cast<uint32_t>(x);
}
inline float __int_as_float(int32_t bits) {
    return std::bit_cast<float>(bits);
}
inline int32_t __float_as_int(float x) {
    return std::bit_cast<int32_t>(x);
}
inline uint32_t __umulhi(uint32_t a, uint32_t b) {
    return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32);
}
inline int __popc(uint32_t bits) {
    return std::popcount(bits);
}
inline float __fmaf_rn(float a, float b, float c) {
    if (!__builtin_cpu_supports("fma")) return std::fma(a, b, c);
    asm("vfmadd231ss %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
    return c;
}
using std::isnan;
using std::max;
using std::min;
