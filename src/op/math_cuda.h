// math_cuda.h: functions of numbers that several ops use. For .cu files alone.
#pragma once

#include "device/cuda/kernel.h"

namespace windlass {

__device__ inline float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

// GELU by tanh: y = x (1 + tanh v) / 2 = x s(2v) with the sigmoid s and v = sqrt(2/pi) (x + 0.044715 x^3) (Hendrycks
// and Gimpel, "Gaussian Error Linear Units"): the sigmoid form loses no digits where tanh v is near -1.
struct GeluTanh {
    static constexpr float kTwoRoot2OverPi = 1.5957691216f, kCubic = 0.044715f;
    __device__ static float value(float x) { return x * sigmoid(kTwoRoot2OverPi * (x + kCubic * x * x * x)); }
    __device__ static float slope(float x) {
        const float s = sigmoid(kTwoRoot2OverPi * (x + kCubic * x * x * x));
        return s + x * s * (1.0f - s) * kTwoRoot2OverPi * (1.0f + 3.0f * kCubic * x * x);
    }
};

}  // namespace windlass
