// lomo_cuda.h: the updates of LOMO and AdaLomo on CUDA devices; null in builds without CUDA. The CPU's bits.
#pragma once

#include "method/recipe.h"

namespace windlass {

extern const ParamCell kLomoCuda;
extern const ParamCell kAdalomoCuda;

}  // namespace windlass
