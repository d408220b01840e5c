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

// With columns that stay, a scale, and frequencies of long documents.
struct RopePartArgs : RopeArgs {
    int64_t still = 0, passed = 0;
    float scale = 1;
    // Where there are long frequencies: a document of more than short_length tokens turns by them.
    int64_t short_length = 0, length = 0;
    const int32_t* doc_start = nullptr;  // null: all rows are long, or none, as is_long says
    bool is_long = false;
    float long_frequencies[kCudaRopePairsMax];
};

void launch_rope(bool is_bf16, const RopeArgs& args, CudaStreamHandle stream);

void launch_rope_part(bool is_bf16, const RopePartArgs& args, CudaStreamHandle stream);

}  // namespace windlass
