// math_cuda.h: functions of numbers that several ops use. For .cu files alone.
#pragma once

#include "device/cuda/kernel.h"

namespace windlass {

__device__ inline float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

}  // namespace windlass
