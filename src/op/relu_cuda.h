// relu_cuda.h: launches of the CUDA kernels of relu; what they compute: ops.h.
#pragma once

#include "op/pointwise_cuda.h"

namespace windlass {

void launch_relu_forward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);
void launch_relu_backward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);
void launch_relu_tangent(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);

}  // namespace windlass
