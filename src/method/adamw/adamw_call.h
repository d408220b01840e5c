// adamw_call.h: what kernels of AdamW take, from the call of an update; the same for every device.
#pragma once

#include <cmath>

#include "base/rng.h"
#include "method/adamw/adamw_kernel.h"
#include "method/recipe.h"

namespace windlass {

inline AdamwCoefficients adamw_coefficients(const ParamCall& call) {
    const StepParams& step = *call.step;
    const GradientStep& of = step.gradient();
    const ParamTraining& training = call.param.training;
    const double t = static_cast<double>(step.step), rate = step.learning_rate * training.learning_rate_scale;
    const double decay = training.decays ? rate * training.weight_decay.value_or(of.weight_decay) : 0.0;
    const double step_size = rate / (1.0 - std::pow(of.beta1, t));
    const double root_bias2 = std::sqrt(1.0 - std::pow(of.beta2, t));
    return {.clip = static_cast<float>(step.clip_scale),
            .decay = static_cast<float>(1.0 - decay),
            .beta1 = static_cast<float>(of.beta1),
            .one_minus_beta1 = static_cast<float>(1.0 - of.beta1),
            .beta2 = static_cast<float>(of.beta2),
            .one_minus_beta2 = static_cast<float>(1.0 - of.beta2),
            .step_size = static_cast<float>(step_size),
            .root_bias2 = static_cast<float>(root_bias2),
            .epsilon = static_cast<float>(of.epsilon),
            .first_gain = static_cast<float>(step.clip_scale * (1.0 - of.beta1)),
            .root_second_gain = static_cast<float>(step.clip_scale * std::sqrt(1.0 - of.beta2)),
            .step_gain = static_cast<float>(step_size * root_bias2),
            .epsilon_gain = static_cast<float>(of.epsilon * root_bias2)};
}

// The moments of the elements from `begin` on, by format.
inline AdamwF32 adamw_f32_at(std::span<std::byte* const> state, int64_t begin) {
    return {reinterpret_cast<float*>(state[0]) + begin, reinterpret_cast<float*>(state[1]) + begin};
}
inline AdamwBf16 adamw_bf16_at(std::span<std::byte* const> state, int64_t begin) {
    return {reinterpret_cast<uint16_t*>(state[0]) + begin, reinterpret_cast<uint16_t*>(state[1]) + begin};
}
inline AdamwBlocks adamw_blocks_at(std::span<std::byte* const> state, int64_t begin) {
    return {reinterpret_cast<uint8_t*>(state[0]) + begin, reinterpret_cast<float*>(state[1]) + begin / kAdamwBlock,
            reinterpret_cast<uint8_t*>(state[2]) + begin, reinterpret_cast<float*>(state[3]) + begin / kAdamwBlock};
}

// Of the elements from `begin` on, which begins a block.
inline AdamwNoise adamw_noise(const ParamCall& call, int64_t begin) {
    return {.seed = call.step->seed,
            .block = static_cast<uint64_t>(call.element + begin) / 4,
            .stream = static_cast<uint32_t>(RandomStream::rounding),
            .step = static_cast<uint32_t>(call.step->step)};
}

}  // namespace windlass
