// layer_norm_cuda.h: launches of the CUDA kernels of layer_norm; what they compute: ops.h.
#pragma once

#include "op/sums_cuda.h"

namespace windlass {

struct LayerNormArgs {
    CudaValue x, y;
    CudaWeight w, b;
    float* moments = nullptr;  // mean and rstd of each row, `moments_stride` numbers apart; null: not kept
    int64_t moments_stride = 0;
    int64_t rows = 0, cols = 0;
    float eps = 0;
    // backward: y is grad_out.
    CudaValue grad_x;
    CudaSum sum_w, sum_b;
    // tangent: y is tangent_out, [k * rows].
    CudaValue tangent_x;
    const void *tangent_w = nullptr, *tangent_b = nullptr;  // [k, cols]
    int64_t k = 1;
};

void launch_layer_norm_forward(bool is_bf16, const LayerNormArgs& args, CudaStreamHandle stream);
void launch_layer_norm_backward(bool is_bf16, const LayerNormArgs& args, CudaStreamHandle stream);
void launch_layer_norm_tangent(bool is_bf16, const LayerNormArgs& args, CudaStreamHandle stream);

}  // namespace windlass
