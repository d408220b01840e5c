// copy_cuda.h: the kernel of kCopyWeights on CUDA devices; null in builds without CUDA. The CPU's bits.
#pragma once

#include "perturb/weight_op.h"

namespace windlass {

extern const WeightKernel kCopyWeightsCuda;

}  // namespace windlass
