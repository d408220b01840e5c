#include "perturb/copy_cuda.h"

namespace windlass {

constinit const WeightKernel kCopyWeightsCuda = nullptr;

}  // namespace windlass
