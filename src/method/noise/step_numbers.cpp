#include "method/noise/step_numbers.h"

#include <algorithm>

#include "base/error.h"

#include "method/noise/layer_drop.h"

namespace windlass {
namespace {

// Places in StepParams::method; kDecay holds what a step multiplies decayed weights with, as a log keeps it.
enum Place : size_t {
    kEps,
    kDecay,
    kDirections,
    kKind,
    kRank,
    kWindow,
    kKeepsLeft,
    kMoments,
    kReplayed,
    kBeta1,
    kBeta2,
    kEpsilon,
    kLayerDrop
};

void set_kind(const Noise& noise, StepParams& step) {
    step.method[kKind] = static_cast<double>(noise.kind);
    step.method[kRank] = static_cast<double>(noise.rank);
    step.method[kWindow] = static_cast<double>(noise.window);
    step.method[kKeepsLeft] = noise.keeps_left ? 1 : 0;
}
void set_rule(const MomentRule& rule, StepParams& step) {
    step.method[kMoments] = static_cast<double>(rule.moments);
    step.method[kReplayed] = rule.window;
    step.method[kBeta1] = rule.beta1;
    step.method[kBeta2] = rule.beta2;
    step.method[kEpsilon] = rule.epsilon;
}

}  // namespace

void set_noise(const MethodOptions& options, StepParams& step) {
    step.method[kEps] = options.zo_eps;
    step.method[kDecay] = 1.0 - step.learning_rate * options.weight_decay;
    step.method[kDirections] = options.directions;
    step.method[kLayerDrop] = options.layer_drop;
    set_rule(moment_rule(options), step);
    set_kind(noise_of(options), step);
}

void check_folding(const MethodOptions& options) {
    if (options.folding == Folding::each_step) return;
    const auto refuse = [&](std::string_view why, std::string_view hint) {
        throw UserError(ExitCode::usage, "fold_updates", "{}: {}", folding_name(options.folding), why)
            .hint(std::string(hint));
    };
    if (options.noise != NoiseKind::low_rank)
        refuse("only directions of factors have a sum that takes no memory", "noise: low_rank");
    if (options.moments != NoiseMoments::none)
        refuse("there are no moments of what is not stored", "zo_optimizer: sgd");
    if (options.folding == Folding::each_window) {
        if (options.noise_window >= 2 && options.noise_window <= kFoldWindowMax) return;
        refuse(fmt::format("a window of noise_window steps, 2 to {}; it is {}", kFoldWindowMax, options.noise_window),
               "noise_window: 50");
    }
    if (options.noise_window != 0 || !options.noise_keeps_left)
        refuse("both factors stay for the whole run", "noise_window: 0 and noise_kept: both");
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

Noise noise_of(const MethodOptions& options) {
    if (options.noise != NoiseKind::low_rank) return {.kind = options.noise};
    return {.kind = options.noise,
            .rank = options.noise_rank,
            .window = options.noise_window,
            .keeps_left = options.noise_keeps_left};
}

StepParams params_of(const NoiseUpdate& update) {
    WINDLASS_CHECK(update.scalars.size() <= size_t{kDirectionsMax}, "a step of {} directions", update.scalars.size());
    StepParams step{.seed = update.seed, .step = update.step, .learning_rate = update.learning_rate};
    step.method[kDecay] = update.decay;
    step.method[kDirections] = static_cast<double>(update.scalars.size());
    set_kind(update.noise, step);
    set_rule(update.rule, step);
    step.method[kLayerDrop] = update.layer_drop;
    std::copy(update.scalars.begin(), update.scalars.end(), step.scalars.begin());
    return step;
}

NoiseUpdate noise_update(const StepParams& step) {
    return {.seed = step.seed,
            .step = step.step,
            .learning_rate = step.learning_rate,
            .decay = step.method[kDecay],
            .noise = noise_in(step),
            .rule = rule_in(step),
            .layer_drop = step.method[kLayerDrop],
            .scalars = std::span(step.scalars).first(static_cast<size_t>(directions_in(step)))};
}

Noise noise_in(const StepParams& step) {
    return {.kind = static_cast<NoiseKind>(static_cast<int>(step.method[kKind])),
            .rank = static_cast<int64_t>(step.method[kRank]),
            .window = static_cast<int64_t>(step.method[kWindow]),
            .keeps_left = step.method[kKeepsLeft] != 0};
}
MomentRule rule_in(const StepParams& step) {
    return {.moments = static_cast<NoiseMoments>(static_cast<int>(step.method[kMoments])),
            .window = static_cast<int>(step.method[kReplayed]),
            .beta1 = step.method[kBeta1],
            .beta2 = step.method[kBeta2],
            .epsilon = step.method[kEpsilon]};
}

int directions_in(const StepParams& step) {
    return static_cast<int>(step.method[kDirections]);
}
double eps_in(const StepParams& step) {
    return step.method[kEps];
}

bool moves(const Param& param, const StepParams& step) {
    return param.trains() && !is_layer_dropped(step.seed, step.step, param.spec.layer, step.method[kLayerDrop]);
}

double rate_of(const ParamTraining& training, const StepParams& step) {
    return step.learning_rate * training.learning_rate_scale;
}

// The log of a run has what the run's own weight decay leaves; one that belongs to the parameter is put the same way,
// so that equal decays round alike.
double shrinkage(const ParamTraining& training, const StepParams& step) {
    if (!training.decays) return 0.0;
    if (training.weight_decay) return 1.0 - (1.0 - rate_of(training, step) * *training.weight_decay);
    return (1.0 - step.method[kDecay]) * training.learning_rate_scale;
}

}  // namespace windlass
