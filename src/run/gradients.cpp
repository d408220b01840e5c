#include "run/gradients.h"

#include "base/index.h"
#include "method/round_gradient.h"

namespace windlass {

void round_gradients(const RoundTask& task, const Numerics& numerics, std::span<const int64_t> elements,
                     const StepParams& step, const LaunchedMemory& memory) {
    for (const RoundPart& part : task.parts) {
        round_gradient({.format = numerics.gradient_format,
                        .step = &step,
                        .element = elements[at(part.param)] + part.first,
                        .count = part.count,
                        .sum = reinterpret_cast<float*>(memory.address(part.sum)),
                        .narrow = memory.address(part.narrow)},
                       memory.stream());
    }
}

const float* wide_gradient(const UpdateTask& update, const UpdateChunk& chunk, const LaunchedMemory& memory) {
    if (update.keeps_only) return nullptr;
    std::byte* const gradient = memory.address(chunk.gradient);
    if (chunk.gradient_format == GradientFormat::f32) return reinterpret_cast<const float*>(gradient);
    auto* const wide = reinterpret_cast<float*>(memory.address(update.wide));
    widen_gradient({.format = chunk.gradient_format, .count = chunk.count, .narrow = gradient, .wide = wide},
                   memory.stream());
    return wide;
}

}  // namespace windlass
