// adamw_kernel_cuda.h: launches of one AdamW step over a run of elements (adamw_kernel.h).
#pragma once

#include "device/cuda/launch.h"
#include "method/adamw/adamw_kernel.h"

namespace windlass {

template <typename Moments>
struct AdamwArgs {
    AdamwCoefficients c;
    AdamwNoise noise;
    int64_t count = 0;
    uint16_t* hi = nullptr;
    int16_t* lo = nullptr;
    Moments moments;
    const float* gradient = nullptr;
    bool aligned = false;  // the launch finds out
};

void launch_adamw(const AdamwArgs<AdamwF32>& args, CudaStreamHandle stream);
void launch_adamw(const AdamwArgs<AdamwBf16>& args, CudaStreamHandle stream);
void launch_adamw(const AdamwArgs<AdamwBlocks>& args, CudaStreamHandle stream);

}  // namespace windlass
