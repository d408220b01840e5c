#include "method/norm_cuda.h"
#include "method/round_gradient_cuda.h"

namespace windlass {

constinit const RoundGradientKernel kRoundGradientCuda = nullptr;
constinit const WidenGradientKernel kWidenGradientCuda = nullptr;
constinit const SumSquaresKernel kSumSquaresCuda = nullptr;

}  // namespace windlass
