// gelu_cuda.h: launches of the CUDA kernels of gelu; what they compute: ops.h.
#pragma once

#include "op/pointwise_cuda.h"

namespace windlass {

void launch_gelu_exact_forward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);
void launch_gelu_tanh_forward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);
// in: x, and what the slope multiplies: grad_out or tangent_in
void launch_gelu_exact_slope(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);
void launch_gelu_tanh_slope(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);

}  // namespace windlass
