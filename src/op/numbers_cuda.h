// numbers_cuda.h: reading and writing values in kernels. For .cu files alone.
#pragma once

#include "device/cuda/kernel.h"
#include "op/values_cuda.h"

namespace windlass {

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
    return __uint_as_float((high << 16) + static_cast<uint32_t>(static_cast<int32_t>(weight.low[i])));
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
