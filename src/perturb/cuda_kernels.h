// cuda_kernels.h: the records' kernels on CUDA devices; null in builds without CUDA. The CPU's bits.
//
// A step has step_terms_max terms at most, and terms of low rank have no factors.
#pragma once

#include "perturb/weight_op.h"

namespace windlass {

extern const WeightKernel kCopyWeightsCuda, kPerturbWeightsCuda, kWriteDirectionCuda, kWriteFactorsCuda;

}  // namespace windlass
