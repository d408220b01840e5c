#include "perturb/cuda_kernels.h"

namespace windlass {

constinit const WeightKernel kCopyWeightsCuda = nullptr;
constinit const WeightKernel kPerturbWeightsCuda = nullptr;
constinit const WeightKernel kWriteDirectionCuda = nullptr;
constinit const WeightKernel kWriteFactorsCuda = nullptr;

}  // namespace windlass
