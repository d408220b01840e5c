// Integers, products and differences that are exact or rounded once: the bits are the CPU's.
#include "device/cuda/kernel.h"
#include "perturb/copy_kernel_cuda.h"
#include "tensor/nf4_levels.h"

namespace windlass {
namespace {

constexpr int64_t kThreads = 256;

__constant__ const float kLevels[16] = {
    kNf4Levels[0],  kNf4Levels[1],  kNf4Levels[2],  kNf4Levels[3],  kNf4Levels[4],  kNf4Levels[5],
    kNf4Levels[6],  kNf4Levels[7],  kNf4Levels[8],  kNf4Levels[9],  kNf4Levels[10], kNf4Levels[11],
    kNf4Levels[12], kNf4Levels[13], kNf4Levels[14], kNf4Levels[15],
};

__device__ float from_bf16(uint32_t bits) {
    return __uint_as_float(bits << 16);
}

// Below the normal numbers the mantissa counts multiples of 2^-24.
__device__ float from_half(uint32_t bits) {
    const uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 0x1fu, mantissa = bits & 0x3ffu;
    if (exponent == 0x1f) return __uint_as_float(sign | 0x7f800000u | mantissa << 13);
    if (exponent != 0) return __uint_as_float(sign | (exponent + 112) << 23 | mantissa << 13);
    return __uint_as_float(sign | __float_as_uint(static_cast<float>(mantissa) * 0x1p-24f));
}

// As tensor/e4m3.h has it.
__device__ float from_e4m3(uint32_t bits) {
    const uint32_t magnitude = (bits & 0x7fu) << 20, sign = (bits & 0x80u) << 24;
    const float small = __uint_as_float(magnitude + 0x3c800000u) - 0x1p-6f;
    const uint32_t number = magnitude < 0x00800000u ? __float_as_uint(small) : magnitude + 0x3c000000u;
    return __uint_as_float((magnitude == 0x07f00000u ? 0x7fc00000u : number) | sign);
}

// As tensor/nf4.h has it.
__device__ float from_nf4(const uint8_t* blocks, int64_t i) {
    const uint8_t* const block = blocks + i / kNf4Block * kNf4BlockBytes;
    const int64_t at = i % kNf4Block;
    const uint32_t codes = block[at / 2], scale = block[kNf4CodeBytes] | static_cast<uint32_t>(block[kNf4CodeBytes + 1])
                                                                             << 8;
    return kLevels[at % 2 == 0 ? codes & 0xfu : codes >> 4] * from_bf16(scale);
}

__device__ float number_at(const CopyWeightsArgs& args, int64_t i) {
    switch (args.stored) {
        case CudaStored::f32:
            return static_cast<const float*>(args.weights)[i];
        case CudaStored::bf16:
            return from_bf16(static_cast<const uint16_t*>(args.weights)[i]);
        case CudaStored::f16:
            return from_half(static_cast<const uint16_t*>(args.weights)[i]);
        case CudaStored::f8:
            return from_e4m3(static_cast<const uint8_t*>(args.weights)[i]) * args.scale;
        case CudaStored::nf4:
            return from_nf4(static_cast<const uint8_t*>(args.weights), i);
    }
    return 0;
}

__global__ void copy_kernel(CopyWeightsArgs args) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < args.count; i += step) {
        const float x = number_at(args, i);
        if (args.narrows)
            static_cast<uint16_t*>(args.out)[i] = static_cast<uint16_t>((__float_as_uint(x) + 0x8000u) >> 16);
        else
            static_cast<float*>(args.out)[i] = x;
    }
}

}  // namespace

void launch_copy_weights(const CopyWeightsArgs& args, CudaStreamHandle stream) {
    constexpr int64_t kBlocksMax = 4096;
    const int64_t blocks = (args.count + kThreads - 1) / kThreads;
    launch(stream, {.blocks = static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax), .threads = kThreads},
           copy_kernel, args, "copy weights");
}

}  // namespace windlass
