// step_numbers.h: what a forward-only step's StepParams hold: what its update depends on, and nothing else does.
//
// set_noise() puts the options there, and Recipe::conclude the scalars. So the same kernel updates a block that is
// streamed, one that stays, and one that is made again from a log.
#pragma once

#include "method/noise/factors.h"
#include "method/recipe.h"

namespace windlass {

// For Recipe::prepare. Reads StepParams::learning_rate.
void set_noise(const MethodOptions& options, StepParams& step);

// UserError(usage) for a folding that these options have no sum for.
void check_folding(const MethodOptions& options);

// What a step's update makes of the steps before it.
MomentRule moment_rule(const MethodOptions& options);
// What these options draw directions from.
Noise noise_of(const MethodOptions& options);

// The numbers of a step that its update depends on: what a log keeps.
struct NoiseUpdate {
    uint64_t seed = 0;
    int64_t step = 0;
    double learning_rate = 0;
    double decay = 1;  // what decayed weights are multiplied with: 1 - learning rate * weight decay
    Noise noise;
    MomentRule rule;
    double layer_drop = 0;           // share of the layers that the step left alone
    std::span<const float> scalars;  // [directions]
};
// A step whose update has the bits of the one that these numbers were taken from.
StepParams params_of(const NoiseUpdate& update);
// Its scalars are those of `step`, which outlives them.
NoiseUpdate noise_update(const StepParams& step);

// ---- one by one: for what updates and probes ----

Noise noise_in(const StepParams& step);
MomentRule rule_in(const StepParams& step);
int directions_in(const StepParams& step);
double eps_in(const StepParams& step);

// Whether a step probes and updates a parameter.
bool moves(const Param& param, const StepParams& step);
// The learning rate of a step's update of this parameter.
double rate_of(const ParamTraining& training, const StepParams& step);
// What its decay takes away of each weight.
double shrinkage(const ParamTraining& training, const StepParams& step);

}  // namespace windlass
