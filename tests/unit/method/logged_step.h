// logged_step.h: a step made of nothing but what a log keeps of it.
#pragma once

#include "method/step.h"

namespace windlass {

inline StepParams logged(const StepParams& step) {
    PerturbStep kept = step.perturb();
    kept.eps = 0;  // of the probes, not of the update
    return {.seed = step.seed, .step = step.step, .learning_rate = step.learning_rate, .method = kept};
}

}  // namespace windlass
