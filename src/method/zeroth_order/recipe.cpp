#include <cmath>

#include "method/forward_only/materialize.h"
#include "method/forward_only/published_steps.h"
#include "method/methods.h"

namespace windlass {
namespace {

Decision conclude(const MethodOptions& options, const Evidence& evidence, StepParams& step) {
    const ZoEstimate made = estimate(options.estimator, evidence.losses, options.zo_eps, step.head.loss_scale);
    step.apply = made.is_finite;
    return {.loss = made.loss, .norm = std::abs(set_scalars(options, made.found, step))};
}

const ParamKernel& kernel_of(const MethodOptions& options) {
    static const ParamKernel kPoint = materialize_kernel<materialize_point>(),
                             kPoints = materialize_kernel<materialize_points>();
    return points_of(options.estimator) == 2 ? kPoints : kPoint;
}

// Zeroth order: the slope along random directions from losses alone, by MeZO's two points (Malladi et al., "Fine-Tuning
// Language Models with Just Forward Passes", NeurIPS 2023, algorithm 1) or another estimator; the update is applied
// when a block is next fetched (ZO2). Several directions of a step share each fetch.
Recipe recipe(const MethodOptions& options) {
    Recipe made{.name = "zeroth_order",
                .store = StoreType::as_file,
                .acts = {{Stage::on_arrival, &kernel_of(options)}},
                .decisions = {{Stage::at_end, conclude}},
                .prepare = set_noise,
                .history = moment_rule(options).history(),
                .terms = terms_of(options),
                .merge = options.merge,
                .merge_window = options.merge == Merge::per_window ? options.noise_window : 0};
    std::vector<int> perturbed(static_cast<size_t>(options.directions), 1);
    made.passes.assign(perturbed.size(), {.kind = PassKind::forward, .k = points_of(options.estimator)});
    if (looks_at_weights(options.estimator)) {
        made.passes.push_back({.kind = PassKind::forward, .clean = true});
        perturbed.push_back(0);
    }
    made.draws = draws_of(options, std::move(perturbed));
    return made;
}

// Estimators that nothing is published of count as the two-point one.
double steps_for_one(const MethodOptions& options) {
    const double published = options.estimator == ZoEstimator::fzoo ? kFzooPasses : kTwoSidedPasses;
    const int clean = looks_at_weights(options.estimator) ? 1 : 0;
    return steps_for_one_of_adam(published, options.directions * points_of(options.estimator) + clean);
}

}  // namespace

const Method kZerothOrder = {"zeroth_order", recipe, steps_for_one};

}  // namespace windlass
