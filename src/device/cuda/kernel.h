// kernel.h: what kernels are written with. For .cu files alone: nvcc reads them, and in tests the compiler of the host,
// with tests/simt/language.h in front.
//
// A kernel takes one plain struct, asks for shared memory by shared_memory(), and speaks of PTX only in the headers of
// this folder. Sums have an order that shapes alone decide: there are no atomics.
#pragma once

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

#include <cstdint>

#include "device/cuda/launch.h"
#include "tensor/dtype.h"

namespace windlass {

inline constexpr unsigned kWarp = 32;

// launch(stream, {.blocks = 8, .threads = 256}, kernel, args)
template <typename Args>
void launch(CudaStreamHandle stream, const CudaGrid& grid, void (*kernel)(Args), Args args, const char* name) {
    CudaKernelCall call{.name = name,
                        .kernel = reinterpret_cast<const void*>(kernel),
                        .args = &args,
                        .arg_bytes = sizeof(Args),
                        .grid = grid};
#ifndef __CUDACC__
    call.run = [](const void* function, const void* given) {
        reinterpret_cast<void (*)(Args)>(const_cast<void*>(function))(*static_cast<const Args*>(given));
    };
#endif
    launch_kernel(stream, call);
}

// The block's shared memory: CudaGrid::shared_bytes of it.
template <typename T>
__device__ inline T* shared_memory() {
#ifdef __CUDACC__
    extern __shared__ __align__(16) unsigned char windlass_shared_memory[];
    return reinterpret_cast<T*>(windlass_shared_memory);
#else
    return reinterpret_cast<T*>(simt::shared_memory());
#endif
}

// A number of a value, to f32 and back, rounded to nearest, ties to even.
__device__ inline float widen(float x) {
    return x;
}
__device__ inline float widen(bf16 x) {
    return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
}
template <typename T>
__device__ T narrow(float x);
template <>
__device__ inline float narrow<float>(float x) {
    return x;
}
template <>
__device__ inline bf16 narrow<bf16>(float x) {
    const uint32_t u = __float_as_uint(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
    return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

// The sum over a warp, in every lane.
__device__ inline float warp_sum(float x) {
    for (int apart = kWarp / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(0xffffffffu, x, apart);
    return x;
}

// The greatest over a warp, in every lane.
__device__ inline uint32_t warp_max(uint32_t x) {
    for (unsigned apart = kWarp / 2; apart > 0; apart /= 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffffu, x, apart);
        x = x > other ? x : other;
    }
    return x;
}

// The sum over a block of whole warps, in every thread. `room`: a float of shared memory for each warp, which no other
// code uses until the next barrier.
__device__ inline float block_sum(float x, float* room) {
    x = warp_sum(x);
    if (threadIdx.x % kWarp == 0) room[threadIdx.x / kWarp] = x;
    __syncthreads();
    float sum = 0;
    for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) sum += room[warp];
    __syncthreads();
    return sum;
}

}  // namespace windlass
