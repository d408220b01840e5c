#include "perturb/estimator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace windlass {
namespace {

bool all_finite(std::span<const double> numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [](double each) { return std::isfinite(each); });
}

// (L(w + eps z) - L(w - eps z)) / (2 eps)
std::vector<double> differences(std::span<const double> losses, double eps, double scale) {
    std::vector<double> found;
    for (size_t point = 0; point + 1 < losses.size(); point += 2)
        found.push_back((losses[point] - losses[point + 1]) * scale / (2 * eps));
    return found;
}

// (L(w + eps z) - L(w)) / per
std::vector<double> rises(std::span<const double> losses, double per, double scale) {
    std::vector<double> found;
    for (const double loss : losses.first(losses.size() - 1)) found.push_back((loss - losses.back()) * scale / per);
    return found;
}

// The sample deviation of mean losses.
double deviation(std::span<const double> losses, double scale) {
    const auto count = static_cast<double>(losses.size());
    double mean = 0, squares = 0;
    for (const double loss : losses) mean += loss * scale / count;
    for (const double loss : losses) squares += (loss * scale - mean) * (loss * scale - mean);
    return std::sqrt(squares / (count - 1));
}

// Losses that all agree tell nothing of any direction: no step is taken along them.
ZoEstimate normalised(std::span<const double> losses, double scale) {
    const double sigma = deviation(losses.first(losses.size() - 1), scale);
    ZoEstimate made{.found = rises(losses, sigma == 0 ? 1 : sigma, scale), .is_finite = std::isfinite(sigma)};
    if (sigma == 0) std::fill(made.found.begin(), made.found.end(), 0.0);
    return made;
}

// Each difference divided by max(|c|^0.1, 1), where c = (L(w + eps z) + L(w - eps z) - 2 L(w)) / eps^2.
ZoEstimate preconditioned(std::span<const double> losses, double eps, double scale) {
    constexpr double kPower = 0.1, kLeast = 1.0;
    ZoEstimate made{.found = differences(losses, eps, scale)};
    for (size_t index = 0; index < made.found.size(); ++index) {
        const double rise = losses[2 * index] - losses.back(), other = losses[2 * index + 1] - losses.back();
        const double curvature = (rise + other) * scale / (eps * eps);
        made.found[index] /= std::max(kLeast, std::pow(std::abs(curvature), kPower));
        made.is_finite = made.is_finite && std::isfinite(curvature);
    }
    return made;
}

ZoEstimate estimate_of(ZoEstimator estimator, std::span<const double> losses, double eps, double scale) {
    switch (estimator) {
        case ZoEstimator::two_sided:
            return {.found = differences(losses, eps, scale)};
        case ZoEstimator::one_sided:
            return {.found = rises(losses, eps, scale)};
        case ZoEstimator::fzoo:
            return normalised(losses, scale);
        case ZoEstimator::spsa15:
            return preconditioned(losses, eps, scale);
    }
    return {};
}

}  // namespace

std::string_view estimator_name(ZoEstimator estimator) {
    switch (estimator) {
        case ZoEstimator::two_sided:
            return "two_sided";
        case ZoEstimator::one_sided:
            return "one_sided";
        case ZoEstimator::fzoo:
            return "fzoo";
        case ZoEstimator::spsa15:
            return "spsa15";
    }
    return "?";
}

std::optional<ZoEstimator> estimator_from_name(std::string_view name) {
    for (const ZoEstimator estimator : kZoEstimators) {
        if (estimator_name(estimator) == name) return estimator;
    }
    return std::nullopt;
}

int points_of(ZoEstimator estimator) {
    return estimator == ZoEstimator::two_sided || estimator == ZoEstimator::spsa15 ? 2 : 1;
}

bool looks_at_weights(ZoEstimator estimator) {
    return estimator != ZoEstimator::two_sided;
}

int least_directions(ZoEstimator estimator) {
    return estimator == ZoEstimator::fzoo ? 2 : 1;
}

ZoEstimate estimate(ZoEstimator estimator, std::span<const double> losses, double eps, double scale) {
    const size_t points = losses.size() - (looks_at_weights(estimator) ? 1 : 0);
    WINDLASS_CHECK(
        points % static_cast<size_t>(points_of(estimator)) == 0 &&
            points / static_cast<size_t>(points_of(estimator)) >= static_cast<size_t>(least_directions(estimator)),
        "{} losses for {}", losses.size(), estimator_name(estimator));
    ZoEstimate made = estimate_of(estimator, losses, eps, scale);
    made.is_finite = made.is_finite && all_finite(losses) && all_finite(made.found);
    made.loss = looks_at_weights(estimator)
                    ? losses.back()
                    : std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
    return made;
}

}  // namespace windlass
