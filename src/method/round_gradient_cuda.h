// round_gradient_cuda.h: rounding and widening of gradients on CUDA devices; null in builds without CUDA. The CPU's
// bits.
#pragma once

#include "device/device.h"
#include "method/gradient_format.h"
#include "method/round_gradient_kernel.h"

namespace windlass {

struct RoundGradientArgs {
    GradientFormat format;
    GradientNoise noise;
    GradientRun run;
};
struct WidenGradientArgs {
    GradientFormat format;
    WideRun run;
};

using RoundGradientKernel = void (*)(const RoundGradientArgs& args, Stream& stream);
using WidenGradientKernel = void (*)(const WidenGradientArgs& args, Stream& stream);
extern const RoundGradientKernel kRoundGradientCuda;
extern const WidenGradientKernel kWidenGradientCuda;

}  // namespace windlass
