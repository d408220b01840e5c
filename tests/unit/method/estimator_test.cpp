// What a zeroth-order step makes of its losses, against the formulas in longer numbers and on functions whose slopes
// are known.
#include "perturb/estimator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/index.h"
#include "base/rng.h"
#include "method/recipe.h"

namespace windlass {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr double kEps = 1e-2, kScale = 1.0 / 7;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int kEstimatorDirections = 5;

// Sums of losses as a step has them, near 20 and as far apart as probes are.
std::vector<double> some_losses(ZoEstimator estimator, uint64_t seed, int directions = kEstimatorDirections) {
    Random random(seed, RandomStream::test);
    std::vector<double> losses;
    const int count = directions * points_of(estimator) + (looks_at_weights(estimator) ? 1 : 0);
    for (int i = 0; i < count; ++i) losses.push_back(20 + 0.1 * double{random.normal()});
    return losses;
}

std::vector<double> found(ZoEstimator estimator, const std::vector<double>& losses) {
    const ZoEstimate made = estimate(estimator, losses, kEps, kScale);
    EXPECT_TRUE(made.is_finite);
    return made.found;
}

// A long double carries 11 bits more: what is left are roundings of 1e-16, of losses near 3 divided by 1e-2 (1e-4
// where curvature is meant).
void expect_near(const std::vector<double>& values, const std::vector<long double>& wanted) {
    ASSERT_EQ(values.size(), wanted.size());
    for (size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(values[i], static_cast<double>(wanted[i]), 1e-11 * std::max(1.0, std::abs(values[i]))) << i;
}

TEST(Estimator, TwoSidedIsTheDifferenceOverTwiceTheDistance) {
    const std::vector<double> losses = some_losses(ZoEstimator::two_sided, 1);
    std::vector<long double> wanted;
    for (size_t i = 0; i < losses.size(); i += 2)
        wanted.push_back((static_cast<long double>(losses[i]) - losses[i + 1]) * kScale / (2.0L * kEps));
    expect_near(found(ZoEstimator::two_sided, losses), wanted);
}

TEST(Estimator, OneSidedIsTheRiseOverTheDistance) {
    const std::vector<double> losses = some_losses(ZoEstimator::one_sided, 2);
    std::vector<long double> wanted;
    for (size_t i = 0; i + 1 < losses.size(); ++i)
        wanted.push_back((static_cast<long double>(losses[i]) - losses.back()) * kScale / kEps);
    expect_near(found(ZoEstimator::one_sided, losses), wanted);
}

// (l_i - l_0) / sigma, sigma^2 = sum (l_i - mean)^2 / (n - 1), of the points alone.
TEST(Estimator, FzooIsTheRiseOverTheDeviation) {
    for (const uint64_t seed : {3, 4, 5}) {
        const std::vector<double> losses = some_losses(ZoEstimator::fzoo, seed);
        long double mean = 0, squares = 0;
        for (size_t i = 0; i + 1 < losses.size(); ++i)
            mean += static_cast<long double>(losses[i]) / kEstimatorDirections;
        for (size_t i = 0; i + 1 < losses.size(); ++i) squares += (losses[i] - mean) * (losses[i] - mean);
        std::vector<long double> wanted;
        for (size_t i = 0; i + 1 < losses.size(); ++i)
            wanted.push_back((losses[i] - static_cast<long double>(losses.back())) /
                             std::sqrt(squares / (kEstimatorDirections - 1)));
        expect_near(found(ZoEstimator::fzoo, losses), wanted);
    }
}

// Neither the loss's unit nor the distance matters: what is found is a number of deviations.
TEST(Estimator, FzooHasNoUnit) {
    const std::vector<double> losses = some_losses(ZoEstimator::fzoo, 6);
    const std::vector<double> once = found(ZoEstimator::fzoo, losses);
    const std::vector<double> other = estimate(ZoEstimator::fzoo, losses, 10 * kEps, 1000 * kScale).found;
    for (size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(other[i], once[i], 1e-11 * std::abs(once[i]));
}

// (l+ - l-) / (2 eps) / max(|c|^0.1, 1), c = (l+ + l- - 2 l_0) / eps^2.
TEST(Estimator, Spsa15DividesByTheCurvature) {
    const std::vector<double> losses = some_losses(ZoEstimator::spsa15, 7);
    std::vector<long double> wanted;
    int weighed = 0;
    for (size_t i = 0; i + 1 < losses.size(); i += 2) {
        const long double difference = (static_cast<long double>(losses[i]) - losses[i + 1]) * kScale / (2.0L * kEps);
        const long double both = static_cast<long double>(losses[i]) + losses[i + 1] - 2.0L * losses.back();
        const long double weight = std::pow(std::abs(both * kScale / (static_cast<long double>(kEps) * kEps)), 0.1L);
        weighed += weight > 1 ? 1 : 0;
        wanted.push_back(difference / std::max(weight, 1.0L));
    }
    EXPECT_GT(weighed, 0);
    expect_near(found(ZoEstimator::spsa15, losses), wanted);
}

TEST(Estimator, Spsa15IsTwoSidedWhereTheLossIsStraight) {
    const std::vector<double> pairs = {3, 1, 2.5, 1.5};
    const std::vector<double> straight = {3, 1, 2.5, 1.5, 2};
    EXPECT_EQ(found(ZoEstimator::spsa15, straight), found(ZoEstimator::two_sided, pairs));
}

// L(x) = a x + h x^2 / 2 along each direction, at x = 0.
TEST(Estimator, FindsWhatIsKnownOfParabolas) {
    const double slopes[] = {0.3, -2, 0}, bends[] = {40, -5000, 0.5};
    const auto loss = [&](int i, double x) { return 4 + slopes[i] * x + bends[i] * x * x / 2; };
    std::vector<double> pairs, singles;
    for (int i = 0; i < 3; ++i) {
        pairs.insert(pairs.end(), {loss(i, kEps), loss(i, -kEps)});
        singles.push_back(loss(i, kEps));
    }
    std::vector<double> with_clean = pairs;
    with_clean.push_back(4);
    singles.push_back(4);
    for (int i = 0; i < 3; ++i) {
        // Losses near 4 are rounded by 4e-16: over eps 1e-13, over eps^2 1e-11.
        EXPECT_NEAR(estimate(ZoEstimator::two_sided, pairs, kEps, 1).found[at(i)], slopes[i], 1e-12);
        EXPECT_NEAR(estimate(ZoEstimator::one_sided, singles, kEps, 1).found[at(i)], slopes[i] + bends[i] * kEps / 2,
                    1e-12);
        EXPECT_NEAR(estimate(ZoEstimator::spsa15, with_clean, kEps, 1).found[at(i)],
                    slopes[i] / std::max(1.0, std::pow(std::abs(bends[i]), 0.1)), 1e-10);
    }
}

// The loss that is reported is that of the weights, where it was looked at.
TEST(Estimator, ReportsTheLossOfTheWeights) {
    for (const ZoEstimator estimator : kZoEstimators) {
        const std::vector<double> losses = some_losses(estimator, 8);
        double mean = 0;
        for (const double loss : losses) mean += loss / static_cast<double>(losses.size());
        const double reported = estimate(estimator, losses, kEps, kScale).loss;
        EXPECT_NEAR(reported, looks_at_weights(estimator) ? losses.back() : mean, 1e-13);
    }
}

// Points that all cost the same tell nothing, even where they cost more than the weights do.
TEST(Estimator, FzooTakesNoStepWhereLossesDoNotDeviate) {
    for (const double clean : {20.0, 19.0}) {
        const ZoEstimate made = estimate(ZoEstimator::fzoo, std::vector<double>{20, 20, 20, clean}, kEps, kScale);
        EXPECT_TRUE(made.is_finite);
        EXPECT_THAT(made.found, Each(0.0));
    }
}

TEST(Estimator, GoesByNothingThatIsNotFinite) {
    for (const ZoEstimator estimator : kZoEstimators) {
        const std::vector<double> good = some_losses(estimator, 9, 3);
        for (const double bad : {kInf, -kInf, std::nan("")}) {
            for (size_t place = 0; place < good.size(); ++place) {
                std::vector<double> losses = good;
                losses[place] = bad;
                EXPECT_FALSE(estimate(estimator, losses, kEps, kScale).is_finite)
                    << estimator_name(estimator) << ", " << bad << " at " << place;
            }
            EXPECT_FALSE(estimate(estimator, std::vector<double>(good.size(), bad), kEps, kScale).is_finite);
        }
        EXPECT_FALSE(estimate(estimator, good, kEps, kInf).is_finite) << estimator_name(estimator);
    }
    // Finite losses whose squares are not: no deviation is none to divide by.
    EXPECT_FALSE(estimate(ZoEstimator::fzoo, std::vector<double>{1e300, -1e300, 0, 0}, kEps, 1).is_finite);
}

TEST(Estimator, IsFoundByItsName) {
    for (const ZoEstimator estimator : kZoEstimators)
        EXPECT_EQ(estimator_from_name(estimator_name(estimator)), estimator);
    EXPECT_EQ(estimator_from_name("spsa"), std::nullopt);
}

// ---- what a step looks at ----

TEST(EstimatorRecipe, LooksAtAsManyPointsAsItsFormulaTakes) {
    for (const ZoEstimator estimator : kZoEstimators) {
        SCOPED_TRACE(estimator_name(estimator));
        const Recipe recipe = make_recipe("zeroth_order", {.directions = 8, .estimator = estimator});
        const LoneParam matrix{.spec = {.name = "w", .shape = {4, 4}}};
        int points = 0, clean = 0, index = 0;
        for (const RecipePass& pass : recipe.passes) {
            points += pass.k;
            clean += pass.clean ? 1 : 0;
            EXPECT_EQ(recipe.draws(matrix, index++, 0), pass.clean ? 0.0 : 1.0);
        }
        EXPECT_EQ(points, 8 * points_of(estimator) + clean);
        EXPECT_EQ(clean, looks_at_weights(estimator) ? 1 : 0);
        EXPECT_EQ(recipe.passes.back().clean, looks_at_weights(estimator));
        EXPECT_EQ(recipe.draws(matrix, -1, 1), 8);
    }
}

std::string refusal(const MethodOptions& options) {
    try {
        make_recipe("zeroth_order", options);
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
    return "none";
}

TEST(EstimatorRecipe, RefusesWhatAFormulaCannotDo) {
    EXPECT_THAT(refusal({.directions = 1, .estimator = ZoEstimator::fzoo}),
                HasSubstr("along 2 directions or more, of which there are 1"));
    EXPECT_EQ(refusal({.directions = 2, .estimator = ZoEstimator::fzoo}), "none");
}

// What is found reaches the update, cut where that is asked for, and nothing of a bad step does.
TEST(EstimatorRecipe, HandsOnWhatItFinds) {
    const MethodOptions options{.directions = 3, .scalar_clip = 0.9, .estimator = ZoEstimator::fzoo};
    const Recipe recipe = make_recipe("zeroth_order", options);
    StepParams step{.head = {.loss_scale = 0.5}};
    recipe.prepare(options, step);
    const Decide decide = recipe.decision(Stage::at_end);
    const std::vector<double> losses{4, 2, 0, 1};
    EXPECT_EQ(decide(options, {.losses = losses}, step).loss, 1);  // deviation of 2, 1, 0: 1
    EXPECT_TRUE(step.apply);
    EXPECT_EQ(step.perturb().scalars[0], 0.9f);  // (2 - 0.5) / 1, cut
    EXPECT_EQ(step.perturb().scalars[1], 0.5f);
    EXPECT_EQ(step.perturb().scalars[2], -0.5f);
    const std::vector<double> bad{4, kInf, 0, 1};
    decide(options, {.losses = bad}, step);
    EXPECT_FALSE(step.apply);
}

}  // namespace
}  // namespace windlass
