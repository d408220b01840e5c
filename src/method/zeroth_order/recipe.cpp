#include <numeric>

#include "method/methods.h"
#include "method/noise/arrival.h"

namespace windlass {
namespace {

// What the two losses of each direction z say: (L(w + eps z) - L(w - eps z)) / (2 eps).
double conclude(const MethodOptions& options, std::span<const double> losses, StepParams& step) {
    std::vector<double> found;
    for (size_t point = 0; point < losses.size(); point += 2)
        found.push_back((losses[point] - losses[point + 1]) * step.loss_scale / (2 * options.zo_eps));
    step.apply = set_scalars(options, found, step);
    return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

// MeZO's two-point estimate (Malladi et al., "Fine-Tuning Language Models with Just Forward Passes", NeurIPS 2023,
// algorithm 1), its update applied when a block next arrives (ZO2). Several directions of a step share each arrival.
Recipe recipe(const MethodOptions& options) {
    Recipe made{.name = "zeroth_order",
                .store = StoreType::as_file,
                .prepare = set_noise,
                .update_draws = draws_of(options, options.directions * moment_rule(options).window),
                .history = moment_rule(options).history(),
                .conclude = conclude};
    for (int direction = 0; direction < options.directions; ++direction)
        made.sweeps.push_back({.kind = SweepKind::forward, .k = 2, .draws = draws_of(options, 1)});
    made.arrive[static_cast<size_t>(DeviceKind::cpu)] = arrive_at_points;
    made.arrive[static_cast<size_t>(DeviceKind::fake)] = arrive_at_points;
    return made;
}

}  // namespace

const Method kZerothOrder = {"zeroth_order", recipe};

}  // namespace windlass
