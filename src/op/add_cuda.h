// add_cuda.h: launches of the CUDA kernels of add; what they compute: ops.h.
#pragma once

#include "op/pointwise_cuda.h"

namespace windlass {

void launch_add_forward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);
void launch_add_backward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);
void launch_add_tangent(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);

}  // namespace windlass
