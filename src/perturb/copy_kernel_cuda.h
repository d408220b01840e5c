// copy_kernel_cuda.h: the launch of the kernel that copies weights of every stored type.
#pragma once

#include "device/cuda/launch.h"
#include "perturb/noise_kernel.h"

namespace windlass {

struct CopyWeightsArgs {
    const void* weights = nullptr;  // begins with an element with which a block of the type begins
    void* out = nullptr;            // f32, or bf16 to the nearest, ties away from zero
    int64_t count = 0;
    WeightType stored = WeightType::f32;
    float scale = 1;  // f8: of all numbers, a power of two
    bool narrows = false;
};
void launch_copy_weights(const CopyWeightsArgs& args, CudaStreamHandle stream);

}  // namespace windlass
