// step_numbers.h: the settings of a forward-only method as a step's update sees them (PerturbStep).
//
// set_noise() puts them there, and the recipe's decision what the step found. So the same kernel updates a block that
// is streamed, one that stays, and one that is rebuilt from a log.
#pragma once

#include "method/recipe.h"

namespace windlass {

// For Recipe::prepare. Reads StepParams::learning_rate.
void set_noise(const MethodOptions& options, StepParams& step);

// What a step's update makes of the steps before it.
MomentRule moment_rule(const MethodOptions& options);
// Directions that an update of these options adds up at a time.
int64_t terms_of(const MethodOptions& options);
// What these options draw directions from.
Noise noise_of(const MethodOptions& options);

// Whether a step perturbs and updates a parameter.
bool moves(const Param& param, const StepParams& step);
// The learning rate of a step's update of this parameter.
double rate_of(const ParamTraining& training, const StepParams& step);
// What its decay takes away of each weight.
double shrinkage(const ParamTraining& training, const StepParams& step);

}  // namespace windlass
