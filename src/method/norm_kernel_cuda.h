// norm_kernel_cuda.h: the launch of the kernel of sums of squares.
#pragma once

#include "device/cuda/launch.h"
#include "method/norm_cuda.h"

namespace windlass {

void launch_sum_squares(const SumSquaresArgs& args, CudaStreamHandle stream);

}  // namespace windlass
