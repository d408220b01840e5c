#include <cmath>

#include "method/forward_only/materialize.h"
#include "method/forward_only/published_steps.h"
#include "method/methods.h"

namespace windlass {
namespace {

// One forward pass gives the loss and its derivative along each direction, exactly.
Decision conclude(const MethodOptions& options, const Evidence& evidence, StepParams& step) {
    const std::span<const double> losses = evidence.losses;
    std::vector<double> found;
    for (const double derivative : losses.subspan(1)) found.push_back(derivative * step.head.loss_scale);
    step.apply = std::isfinite(losses[0]);
    return {.loss = losses[0], .norm = std::abs(set_scalars(options, found, step))};
}

// Forward gradients (Baydin et al., "Gradients without Backpropagation", 2022): the mean over the directions of
// (derivative along z) z, which is the gradient on the average. Applied when a block is next materialized.
Recipe recipe(const MethodOptions& options) {
    static const ParamKernel kTangents = materialize_kernel<materialize_tangents>();
    const int64_t rank = noise_of(options).rank;  // factors take next to no numbers
    return {.name = "forward_gradient",
            .store = StoreType::as_file,
            .passes = {{.kind = PassKind::tangent, .k = options.directions, .rank = rank}},
            .acts = {{Stage::on_arrival, &kTangents}},
            .decisions = {{Stage::at_end, conclude}},
            .prepare = set_noise,
            .draws = draws_of(options, {rank > 0 ? 0 : options.directions}),
            .history = moment_rule(options).history(),
            .terms = terms_of(options),
            .merge = options.merge,
            .merge_window = options.merge == Merge::per_window ? options.noise_window : 0};
}

// A derivative along a direction is the two-point estimate's limit and has its variance; so it is counted as one.
double steps_for_one(const MethodOptions& options) {
    return steps_for_one_of_adam(kTwoSidedPasses, 2 * options.directions);
}

}  // namespace

const Method kForwardGradient = {"forward_gradient", recipe, steps_for_one};

}  // namespace windlass
