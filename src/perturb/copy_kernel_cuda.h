// copy_kernel_cuda.h: the launch of the kernel that copies weights of every stored type.
#pragma once

#include <cstdint>

#include "device/cuda/launch.h"

namespace windlass {

enum class CudaStored : uint8_t { f32, bf16, f16, f8, nf4 };

struct CopyWeightsArgs {
    const void* weights = nullptr;  // begins with an element with which a block of the type begins
    void* out = nullptr;            // f32, or bf16 to the nearest, ties away from zero
    int64_t count = 0;
    CudaStored stored = CudaStored::f32;
    float scale = 1;  // f8: of all numbers, a power of two
    bool narrows = false;
};
void launch_copy_weights(const CopyWeightsArgs& args, CudaStreamHandle stream);

}  // namespace windlass
