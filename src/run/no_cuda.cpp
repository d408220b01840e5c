#include "run/norm_cuda.h"

namespace windlass {

constinit const SumSquaresKernel kSumSquaresCuda = nullptr;

}  // namespace windlass
