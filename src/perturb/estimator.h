// estimator.h: what the losses of a zeroth-order step say of the slope along each of its directions.
//
// The update needs one number a direction, however it came about: so an estimator is a formula over a handful of losses
// and a list of points to evaluate, and nothing else changes with it. Formulas and sources are in README.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace windlass {

// two_sided: MeZO, two points along each direction. one_sided: a point along each, and the weights themselves.
// fzoo: the same, divided by the deviation of the losses instead of the distance. spsa15: two_sided and the weights
// themselves, directions of high curvature taken for less.
enum class ZoEstimator : uint8_t { two_sided, one_sided, fzoo, spsa15 };
inline constexpr ZoEstimator kZoEstimators[] = {ZoEstimator::two_sided, ZoEstimator::one_sided, ZoEstimator::fzoo,
                                                ZoEstimator::spsa15};

// "two_sided", as in configuration.
std::string_view estimator_name(ZoEstimator estimator);
std::optional<ZoEstimator> estimator_from_name(std::string_view name);

// Points along each direction: 1 or 2.
int points_of(ZoEstimator estimator);
// The loss of the weights themselves is evaluated too, after all directions.
bool looks_at_weights(ZoEstimator estimator);
// Fewer directions say nothing: a deviation is of two losses or more.
int least_directions(ZoEstimator estimator);

struct ZoEstimate {
    std::vector<double> found;  // [directions]
    double loss = 0;            // that is reported, a sum as `losses` are
    bool is_finite = true;      // false: a loss, or what was made of them, is no number to go by
};
// `losses`: sums over a step's tokens, direction by direction, w + eps z first, and last that of the weights themselves
// if it is evaluated. `eps`: the distance. `scale`: 1 / tokens, which turns sums into means.
ZoEstimate estimate(ZoEstimator estimator, std::span<const double> losses, double eps, double scale);

}  // namespace windlass
