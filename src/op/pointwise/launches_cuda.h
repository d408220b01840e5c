// launches_cuda.h: launches of the CUDA kernels of ops that work number by number.
#pragma once

#include "op/pointwise/formulas.h"
#include "op/pointwise_cuda.h"

namespace windlass {

struct PointwiseLaunches {
    PointwiseLaunch forward, backward, tangent;
};
const PointwiseLaunches& pointwise_launches(Pointwise formula);

}  // namespace windlass
