// numbers_cuda.h: reading and writing values in kernels. For .cu files alone.
#pragma once

#include "device/cuda/kernel.h"
#include "device/cuda/pack.h"
#include "device/cuda/unroll.h"
#include "op/values_cuda.h"

namespace windlass {

// a / b of numbers that are not negative. Where 32 bits hold both, they are divided as such: 64 bits take several times
// as long, and a kernel that asks for each number where it lies spends most of its time on that.
__device__ inline int64_t quotient(int64_t a, int64_t b) {
    if (static_cast<uint64_t>(a | b) >> 32 == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
    return a / b;
}

template <typename T>
__device__ inline float read(const CudaValue& value, int64_t row, int64_t col) {
    return value.data == nullptr ? 0.0f : widen(static_cast<const T*>(value.data)[row * value.stride + col]);
}

template <typename T>
__device__ inline void write(const CudaValue& value, int64_t row, int64_t col, float x) {
    if (value.data == nullptr) return;
    T* const to = static_cast<T*>(value.data) + row * value.stride + col;
    *to = narrow<T>(value.adds ? widen(*to) + x : x);
}

__device__ inline float read(const CudaWeight& weight, int64_t i) {
    if (!weight.is_bf16) return static_cast<const float*>(weight.base)[i];
    const uint32_t high = static_cast<const uint16_t*>(weight.base)[i];
    if (weight.low == nullptr) return __uint_as_float(high << 16);
    return __uint_as_float(join_master({static_cast<uint16_t>(high), weight.low[i]}));
}

// Whether packs of 16 bytes of a value, or of a weight, lie at multiples of that.
inline bool has_aligned_packs(const CudaValue& value, int64_t bytes) {
    return reinterpret_cast<uintptr_t>(value.data) % 16 == 0 && value.stride * bytes % 16 == 0;
}
inline bool has_aligned_packs(const CudaWeight& weight) {
    return reinterpret_cast<uintptr_t>(weight.base) % 16 == 0;
}

// Kernels that add numbers up take eight at a time whatever their type and place, so that their sums do not depend on
// whether those are moved 16 bytes at a time, where they are aligned so, or one by one.
inline constexpr int kEight = 8;

// The eight from `from` on; zeros after the first `have`.
template <typename T>
__device__ inline void read_eight(const T* from, int64_t have, bool aligned, float (&to)[kEight]) {
    constexpr int kPack = 16 / sizeof(T);
    if (have >= kEight && aligned) {
        WINDLASS_UNROLL
        for (int first = 0; first < kEight; first += kPack) {
            const auto pack = *reinterpret_cast<const Pack<T, kPack>*>(from + first);
            WINDLASS_UNROLL
            for (int n = 0; n < kPack; ++n) to[first + n] = widen(pack.numbers[n]);
        }
        return;
    }
    WINDLASS_UNROLL
    for (int n = 0; n < kEight; ++n) to[n] = n < have ? widen(from[n]) : 0.0f;
}
template <typename T>
__device__ inline void write_eight(T* to, int64_t have, bool aligned, const float (&from)[kEight]) {
    constexpr int kPack = 16 / sizeof(T);
    if (have >= kEight && aligned) {
        WINDLASS_UNROLL
        for (int first = 0; first < kEight; first += kPack) {
            Pack<T, kPack> pack;
            WINDLASS_UNROLL
            for (int n = 0; n < kPack; ++n) pack.numbers[n] = narrow<T>(from[first + n]);
            *reinterpret_cast<Pack<T, kPack>*>(to + first) = pack;
        }
        return;
    }
    WINDLASS_UNROLL
    for (int n = 0; n < kEight; ++n) {
        if (n < have) to[n] = narrow<T>(from[n]);
    }
}
__device__ inline void read_eight(const CudaWeight& weight, int64_t i, int64_t have, bool aligned,
                                  float (&to)[kEight]) {
    if (!weight.is_bf16) return read_eight(static_cast<const float*>(weight.base) + i, have, aligned, to);
    if (weight.low == nullptr) return read_eight(static_cast<const bf16*>(weight.base) + i, have, aligned, to);
    WINDLASS_UNROLL
    for (int n = 0; n < kEight; ++n) to[n] = n < have ? read(weight, i + n) : 0.0f;
}

// The statement, with T as the type of the computation's numbers.
#define WINDLASS_BY_TYPE(is_bf16, T, ...) \
    do {                                  \
        if (is_bf16) {                    \
            using T = ::windlass::bf16;   \
            __VA_ARGS__;                  \
        } else {                          \
            using T = float;              \
            __VA_ARGS__;                  \
        }                                 \
    } while (false)

}  // namespace windlass
