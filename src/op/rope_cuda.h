// rope_cuda.h: launches of the CUDA kernels of rope; what they compute: ops.h.
#pragma once

#include "op/values_cuda.h"

namespace windlass {

inline constexpr int64_t kCudaRopePairsMax = 256;  // a head of 512 numbers

struct RopeArgs {
    CudaValue x, y;  // [directions * tokens]
    const int32_t* positions = nullptr;
    int64_t tokens = 0, directions = 1, heads = 0, pairs = 0;
    bool backwards = false;  // by the negative angles
    float frequencies[kCudaRopePairsMax];
};

void launch_rope(bool is_bf16, const RopeArgs& args, CudaStreamHandle stream);

}  // namespace windlass
