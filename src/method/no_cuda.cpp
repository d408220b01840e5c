#include "method/round_gradient_cuda.h"

namespace windlass {

constinit const RoundGradientKernel kRoundGradientCuda = nullptr;
constinit const WidenGradientKernel kWidenGradientCuda = nullptr;

}  // namespace windlass
