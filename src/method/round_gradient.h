// round_gradient.h: gradients to their narrow form and back (gradient_format.h), on the stream's device.
//
// What a number becomes depends on the step, on its place in the model and on the numbers of its block, which begins
// at a multiple of its size: so any cut at such a place gives the same bits, on any device and any team.
#pragma once

#include <cstddef>

#include "device/device.h"
#include "method/gradient_format.h"
#include "method/step.h"

namespace windlass {

struct RoundGradient {
    GradientFormat format = GradientFormat::f32;
    const StepParams* step = nullptr;  // its seed and number
    int64_t element = 0;               // of the first number in the model (global_offsets), a multiple of 256
    int64_t count = 0;
    float* sum = nullptr;         // becomes what it is rounded to
    std::byte* narrow = nullptr;  // gradient_bytes of it; null: not wanted
};
void round_gradient(const RoundGradient& call, Stream& stream);

struct WidenGradient {
    GradientFormat format = GradientFormat::f32;
    int64_t count = 0;
    const std::byte* narrow = nullptr;
    float* wide = nullptr;
};
void widen_gradient(const WidenGradient& call, Stream& stream);

}  // namespace windlass
