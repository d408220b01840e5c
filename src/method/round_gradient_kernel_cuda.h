// round_gradient_kernel_cuda.h: launches of the kernels that round and widen gradients.
#pragma once

#include "device/cuda/launch.h"
#include "method/round_gradient_cuda.h"

namespace windlass {

void launch_round_gradient(const RoundGradientArgs& args, CudaStreamHandle stream);
void launch_widen_gradient(const WidenGradientArgs& args, CudaStreamHandle stream);

}  // namespace windlass
