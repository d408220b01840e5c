// stored_cuda.h: weights of every stored type in kernels: read, rounded at random, written. For .cu files alone.
#pragma once

#define WINDLASS_ISA cuda_device
#include "device/cuda/kernel.h"
#include "perturb/noise_kernel.h"
#include "perturb/stored_numbers.h"
#include "tensor/nf4_levels.h"

namespace windlass {
namespace cuda_device {
namespace {

__constant__ const float kLevels[16] = {
    kNf4Levels[0],  kNf4Levels[1],  kNf4Levels[2],  kNf4Levels[3],  kNf4Levels[4],  kNf4Levels[5],
    kNf4Levels[6],  kNf4Levels[7],  kNf4Levels[8],  kNf4Levels[9],  kNf4Levels[10], kNf4Levels[11],
    kNf4Levels[12], kNf4Levels[13], kNf4Levels[14], kNf4Levels[15],
};

// As tensor/nf4.h has it.
__device__ inline float from_nf4(const uint8_t* blocks, int64_t i) {
    const uint8_t* const block = blocks + i / kNf4Block * kNf4BlockBytes;
    const int64_t at = i % kNf4Block;
    const uint32_t codes = block[at / 2], low = block[kNf4CodeBytes], high = block[kNf4CodeBytes + 1];
    return kLevels[at % 2 == 0 ? codes & 0xfu : codes >> 4] * __uint_as_float((low | high << 8) << 16);
}

// What an array of weights holds.
struct StoredNumbers {
    WeightType type;
    F8 f8;

    __device__ float read(const void* array, int64_t i) const {
        switch (type) {
            case WeightType::f32:
                return static_cast<const float*>(array)[i];
            case WeightType::bf16:
                return Bf16::decode(static_cast<const uint16_t*>(array)[i]);
            case WeightType::f16:
                return F16::decode(static_cast<const uint16_t*>(array)[i]);
            case WeightType::f8:
                return f8.decode(static_cast<const uint8_t*>(array)[i]);
            case WeightType::nf4:
                return from_nf4(static_cast<const uint8_t*>(array), i);
        }
        return 0;
    }
    // To one of the two neighbours of the type; nf4 is not written.
    __device__ float random(float x, uint32_t random16) const {
        switch (type) {
            case WeightType::bf16:
                return Bf16::random(x, random16);
            case WeightType::f16:
                return F16::random(x, random16);
            case WeightType::f8:
                return f8.random(x, random16);
            default:
                return x;
        }
    }
    // A number of the type.
    __device__ void write(float x, void* array, int64_t i) const {
        switch (type) {
            case WeightType::f32:
                static_cast<float*>(array)[i] = x;
                break;
            case WeightType::bf16:
                static_cast<uint16_t*>(array)[i] = Bf16::encode(x);
                break;
            case WeightType::f16:
                static_cast<uint16_t*>(array)[i] = F16::encode(x);
                break;
            case WeightType::f8:
                static_cast<uint8_t*>(array)[i] = f8.encode(x);
                break;
            case WeightType::nf4:
                break;
        }
    }
};

// scale: of the numbers of f8, a power of two.
__device__ inline StoredNumbers stored_numbers(WeightType type, float scale) {
    return {type, {scale, 1.0f / scale}};
}

// f32, or bf16 to the nearest, ties to even.
__device__ inline void write_nearest(float x, bool narrows, void* array, int64_t i) {
    if (array == nullptr) return;
    if (narrows)
        static_cast<uint16_t*>(array)[i] = Bf16::encode(Bf16::nearest(x));
    else
        static_cast<float*>(array)[i] = x;
}

}  // namespace
}  // namespace cuda_device
}  // namespace windlass
