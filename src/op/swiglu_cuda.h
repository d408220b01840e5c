// swiglu_cuda.h: launches of the CUDA kernels of swiglu; what they compute: ops.h.
#pragma once

#include "op/pointwise_cuda.h"

namespace windlass {

void launch_swiglu_forward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);
void launch_swiglu_backward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);
void launch_swiglu_tangent(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);

// The same, with the gate's gelu in place of its silu.
void launch_geglu_forward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);
void launch_geglu_backward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);
void launch_geglu_tangent(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);

}  // namespace windlass
