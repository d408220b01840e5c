#include "method/forward_only/step_numbers.h"

#include "perturb/layer_drop.h"

namespace windlass {
void set_noise(const MethodOptions& options, StepParams& step) {
    step.method = PerturbStep{.eps = options.zo_eps,
                              .decay = 1.0 - step.learning_rate * options.weight_decay,
                              .noise = noise_of(options),
                              .rule = moment_rule(options),
                              .layer_drop = options.layer_drop,
                              .directions = options.directions};
}

MomentRule moment_rule(const MethodOptions& options) {
    MomentRule rule{.moments = options.moments};
    if (rule.moments == NoiseMoments::none) return rule;
    rule.window = options.replay_window;
    rule.beta1 = options.beta1;
    if (rule.moments == NoiseMoments::first) return rule;
    rule.beta2 = options.beta2;
    rule.epsilon = options.epsilon;
    return rule;
}

int64_t terms_of(const MethodOptions& options) {
    const bool merges = options.merge == Merge::per_window && !options.noise_keeps_left;
    return int64_t{options.directions} * (merges ? options.noise_window : moment_rule(options).window);
}

Noise noise_of(const MethodOptions& options) {
    if (options.noise != NoiseKind::low_rank) return {.kind = options.noise};
    return {.kind = options.noise,
            .rank = options.noise_rank,
            .window = options.noise_window,
            .keeps_left = options.noise_keeps_left};
}

bool moves(const Param& param, const StepParams& step) {
    return param.trains() && !is_layer_dropped(step.seed, step.step, param.spec.layer, step.perturb().layer_drop);
}

double rate_of(const ParamTraining& training, const StepParams& step) {
    return step.learning_rate * training.learning_rate_scale;
}

// The log of a run has what the run's own weight decay leaves; one that belongs to the parameter is put the same way,
// so that equal decays round alike.
double shrinkage(const ParamTraining& training, const StepParams& step) {
    if (!training.decays) return 0.0;
    if (training.weight_decay) return 1.0 - (1.0 - rate_of(training, step) * *training.weight_decay);
    return (1.0 - step.perturb().decay) * training.learning_rate_scale;
}

}  // namespace windlass
