// adamw_cuda.h: the updates of AdamW on CUDA devices, by StateFormat; null in builds without CUDA. The CPU's bits.
#pragma once

#include <array>

#include "method/recipe.h"

namespace windlass {

extern const std::array<ParamCell, 3> kAdamwCuda;

}  // namespace windlass
