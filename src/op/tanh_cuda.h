// tanh_cuda.h: launches of the CUDA kernels of tanh; what they compute: ops.h.
#pragma once

#include "op/pointwise_cuda.h"

namespace windlass {

void launch_tanh_forward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);
void launch_tanh_backward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);
void launch_tanh_tangent(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);

}  // namespace windlass
