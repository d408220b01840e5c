// step.h: what changes from step to step, as the kernels of methods see it; one value, so that a schedule can be
// replayed as it is.
#pragma once

#include <array>
#include <cstdint>
#include <variant>

#include "op/batch.h"
#include "perturb/factors.h"
#include "perturb/moments.h"

namespace windlass {

// Of methods with gradients: how they decay what they keep of them.
struct GradientStep {
    double beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
};

// Of methods that perturb weights: what the step's update depends on, and nothing else does.
struct PerturbStep {
    double eps = 0;    // how far from the weights the step looks; of no consequence to its update
    double decay = 1;  // what decayed weights are multiplied with: 1 - learning rate * weight decay
    Noise noise;
    MomentRule rule;
    double layer_drop = 0;  // share of the layers that the step leaves alone
    int directions = 0;
    // What the step found along each of them (MeZO's projected gradients), written when its losses are known.
    std::array<float, kDirectionsMax> scalars{};
};

struct StepParams {
    uint64_t seed = 0;
    int64_t step = 0;  // 1 for the first update
    double learning_rate = 0;
    double clip_scale = 1;  // min(1, max_grad_norm / norm); written by the norm's reduction
    bool apply = true;      // false: the loss or the norm is not finite, the update is skipped
    HeadParams head;
    std::variant<std::monostate, GradientStep, PerturbStep> method{};  // Recipe::prepare says which

    const GradientStep& gradient() const { return std::get<GradientStep>(method); }
    const PerturbStep& perturb() const { return std::get<PerturbStep>(method); }
    PerturbStep& perturb() { return std::get<PerturbStep>(method); }
};

}  // namespace windlass
