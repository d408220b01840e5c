// linear_kernels_cuda.h: what products need besides them: launches in plain types.
#pragma once

#include "op/values_cuda.h"

namespace windlass {

// f32 numbers of a weight, as the computation sees them.
struct JoinArgs {
    CudaWeight weight;
    float* out = nullptr;
    int64_t count = 0;
};
void launch_join(const JoinArgs& args, CudaStreamHandle stream);

// to <- from, rounded to bf16.
struct NarrowArgs {
    const float* from = nullptr;
    uint16_t* to = nullptr;
    int64_t count = 0;
};
void launch_narrow(const NarrowArgs& args, CudaStreamHandle stream);

// Rows [directions * tokens, cols] of y: y (+)= sum over r of products[t, j rank + r] outer[j rank + r] + bias[j], of
// direction j and token t.
struct CombineArgs {
    CudaValue y;
    int64_t tokens = 0, directions = 1, cols = 0, rank = 0;
    const float* products = nullptr;  // [tokens, directions * rank]
    const float* outer = nullptr;     // [directions * rank, cols]
    const void* bias = nullptr;       // [directions, cols], of the computation's type; null: none
};
void launch_combine(bool is_bf16, const CombineArgs& args, CudaStreamHandle stream);

}  // namespace windlass
