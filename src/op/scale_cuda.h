// scale_cuda.h: launches of the CUDA kernels of scale; what they compute: ops.h.
#pragma once

#include "op/pointwise_cuda.h"
#include "op/sums_cuda.h"

namespace windlass {

struct ScaleArgs : PointwiseArgs {
    CudaWeight w;  // of no base: ones
    float factor = 1;
    const void* tangent_w = nullptr;  // [k, cols]
    // The weight's gradient: of these values, and of grad_out, which is in[0].
    CudaValue x;
    CudaSum sum;
};

// in: what is scaled
void launch_scale(bool is_bf16, const ScaleArgs& args, CudaStreamHandle stream);
void launch_scale_weight_gradient(bool is_bf16, const ScaleArgs& args, CudaStreamHandle stream);
// in: x, tangent_x; of weights that move
void launch_scale_tangent(bool is_bf16, const ScaleArgs& args, CudaStreamHandle stream);

}  // namespace windlass
