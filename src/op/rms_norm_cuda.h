// rms_norm_cuda.h: launches of the CUDA kernels of rms_norm; what they compute: ops.h.
#pragma once

#include "op/sums_cuda.h"

namespace windlass {

// A row of these is a group of a token: tokens * groups rows of `cols` numbers. Values of a token are `groups` rows one
// after the other.
struct RmsNormArgs {
    CudaValue x, y;
    CudaWeight w;
    float* rstd = nullptr;     // [rows]; null: not kept
    bool unit_offset = false;  // the weight is 1 + w
    int64_t rows = 0, cols = 0, groups = 1;
    float eps = 0;
    bool aligned = false;  // the launch finds out
    // backward: y is grad_out.
    CudaValue grad_x;
    CudaSum sum;
    // tangent: y is tangent_out, [k * rows].
    CudaValue tangent_x;
    const void* tangent_w = nullptr;  // [k, cols]
    int64_t k = 1;
};

void launch_rms_norm_forward(bool is_bf16, const RmsNormArgs& args, CudaStreamHandle stream);
void launch_rms_norm_backward(bool is_bf16, const RmsNormArgs& args, CudaStreamHandle stream);
void launch_rms_norm_tangent(bool is_bf16, const RmsNormArgs& args, CudaStreamHandle stream);

}  // namespace windlass
