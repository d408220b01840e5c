#include "base/error.h"
#include "method/methods.h"
#include "method/noise/arrival.h"

namespace windlass {
namespace {

double conclude(const MethodOptions& options, std::span<const double> losses, StepParams& step) {
    const ZoEstimate made = estimate(options.estimator, losses, options.zo_eps, step.loss_scale);
    step.apply = set_scalars(options, made.found, step) && made.is_finite;
    return made.loss;
}

ArrivalKernel arrival_of(const MethodOptions& options) {
    if (options.exact_inplace) return arrive_exactly;
    return points_of(options.estimator) == 2 ? arrive_at_points : arrive_at_one_point;
}

void check_options(const MethodOptions& options) {
    const int least = least_directions(options.estimator);
    if (options.directions < least)
        throw UserError(ExitCode::usage, "directions", "{}, but zo_estimator {} takes {} or more", options.directions,
                        estimator_name(options.estimator), least)
            .hint("directions: 8");
    if (options.exact_inplace && (options.directions > 1 || options.estimator != ZoEstimator::two_sided))
        throw UserError(ExitCode::usage, "exact_inplace", "MeZO's own walk is along one direction, both ways")
            .hint("directions: 1 and zo_estimator: two_sided");
    if (options.exact_inplace && options.noise == NoiseKind::low_rank)
        throw UserError(ExitCode::usage, "exact_inplace", "MeZO's own walk is along whole directions")
            .hint("noise: gaussian");
    if (options.exact_inplace && options.moments != NoiseMoments::none)
        throw UserError(ExitCode::usage, "exact_inplace", "MeZO's own walk has no moments").hint("zo_optimizer: sgd");
    if (options.exact_inplace && options.sparse_share < 1)
        throw UserError(ExitCode::usage, "sparse_share", "MeZO's own walk moves all weights").hint("sparse_share: 1");
}

// Zeroth order: the slope along random directions from losses alone, by MeZO's two points (Malladi et al., "Fine-Tuning
// Language Models with Just Forward Passes", NeurIPS 2023, algorithm 1) or another estimator; the update is applied
// when a block next arrives (ZO2). Several directions of a step share each arrival.
Recipe recipe(const MethodOptions& options) {
    check_options(options);
    check_folding(options);
    // The walk in place draws its direction anew for each of its passes, as the tensors do that it is compared with.
    const int probe_draws = options.exact_inplace ? 2 : 1, update_draws = options.exact_inplace ? 4 : 1;
    Recipe made{.name = "zeroth_order",
                .store = StoreType::as_file,
                .prepare = set_noise,
                .update_draws = draws_of(options, update_draws * options.directions * moment_rule(options).window),
                .sum_draws = sum_draws_of(options),
                .history = moment_rule(options).history(),
                .folding = options.folding,
                .fold_window = options.folding == Folding::each_window ? options.noise_window : 0,
                .layer_share = 1 - options.layer_drop,
                .conclude = conclude};
    for (int direction = 0; direction < options.directions; ++direction)
        made.sweeps.push_back(
            {.kind = SweepKind::forward, .k = points_of(options.estimator), .draws = draws_of(options, probe_draws)});
    if (looks_at_weights(options.estimator)) made.sweeps.push_back({.kind = SweepKind::forward, .clean = true});
    made.arrive[static_cast<size_t>(DeviceKind::cpu)] = arrival_of(options);
    made.arrive[static_cast<size_t>(DeviceKind::fake)] = arrival_of(options);
    return made;
}

}  // namespace

const Method kZerothOrder = {"zeroth_order", recipe};

}  // namespace windlass
