// Objectives as numbers: which candidate is the best, and what a step's losses make of it.
#include "run/objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace windlass {
namespace {

using testing::ElementsAre;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

// Two micro-batches of two rows of four tokens; the rows have 1, 2, 1 and 3 targets.
struct Rows {
    std::vector<int32_t> targets = {kIgnored, 5,        kIgnored, kIgnored, 1,        kIgnored, 2, kIgnored,
                                    7,        kIgnored, kIgnored, kIgnored, kIgnored, 4,        4, 4};
    std::vector<Batch> micro() const {
        return {{.rows = 2, .sequence_length = 4, .targets = targets.data()},
                {.rows = 2, .sequence_length = 4, .targets = targets.data() + 8}};
    }
};

ObjectiveRows two_examples(Objective kind, bool by_mean = true) {
    return {.kind = kind,
            .by_mean = by_mean,
            .examples = {{.first_row = 0, .row_count = 2, .right = 0}, {.first_row = 2, .row_count = 2, .right = 1}}};
}

// The numbers that a recipe with one forward pass of as many points would get.
std::vector<double> judge(const ObjectiveRows& rows, const std::vector<std::vector<double>>& points) {
    const Rows batch;
    const Recipe recipe{.passes = {{.kind = PassKind::forward, .k = static_cast<int>(points.size())}}};
    return judge_step(rows, recipe, batch.micro(), [&](int result) { return points[static_cast<size_t>(result)]; });
}

TEST(Objective, NamesReadBack) {
    for (const Objective kind :
         {Objective::loss, Objective::choice_loss, Objective::accuracy, Objective::exact_match, Objective::f1})
        EXPECT_EQ(objective_from_name(name_of(kind)), kind);
    EXPECT_EQ(objective_from_name("reward"), std::nullopt);
}

TEST(Objective, TheHeadIsAskedForWhatItWants) {
    const auto asked = [](const ObjectiveRows* rows) {
        StepParams params;
        ask_head(rows, params);
        return std::pair(params.head.result, params.head.id_count);
    };
    const ObjectiveRows accuracy{.kind = Objective::accuracy}, exact{.kind = Objective::exact_match},
        f1{.kind = Objective::f1, .answers = AnswerRules{.id_count = 50}};
    EXPECT_EQ(asked(nullptr).first, HeadResult::loss);
    EXPECT_EQ(asked(&accuracy).first, HeadResult::loss);
    EXPECT_EQ(asked(&exact).first, HeadResult::is_wrong);
    EXPECT_EQ(asked(&f1), std::pair(HeadResult::argmax, int64_t{50}));
}

TEST(Objective, TheBestCandidateHasTheGreatestScoreTheFirstOfEquals) {
    const std::vector<CandidateLoss> two = {{4, 4}, {3, 1}};
    EXPECT_EQ(best_candidate(two, true), 0) << "1 against 3 nats a token";
    EXPECT_EQ(best_candidate(two, false), 1) << "4 against 3 nats";
    EXPECT_EQ(best_candidate(std::vector<CandidateLoss>{{2, 1}, {2, 1}, {3, 1}}, true), 0);
    EXPECT_EQ(best_candidate(std::vector<CandidateLoss>{{kNotANumber, 1}, {9, 1}}, true), 1);
}

TEST(Objective, AccuracyCountsExamplesWhereAnotherCandidateIsBetter) {
    const ObjectiveRows by_mean = two_examples(Objective::accuracy), by_sum = two_examples(Objective::accuracy, false);
    // Right and wrong by sum at the first point; by mean 2 against 3 / 2, and 1 against 6 / 3.
    const std::vector<std::vector<double>> points = {{2, 3, 1, 6}, {1, 9, 9, 1}, {9, 1, 1, 30}};
    EXPECT_THAT(judge(by_mean, points), ElementsAre(2, 0, 2));
    EXPECT_THAT(judge(by_sum, points), ElementsAre(1, 0, 2));
}

TEST(Objective, ALossThatIsNotANumberIsNoWrongAnswer) {
    for (const Objective kind : {Objective::accuracy, Objective::choice_loss})
        EXPECT_TRUE(std::isnan(judge(two_examples(kind), {{1, kNotANumber, 1, 1}})[0])) << name_of(kind);
    const ObjectiveRows exact{.kind = Objective::exact_match, .examples = {{.first_row = 0}}};
    EXPECT_TRUE(std::isnan(judge(exact, {{kNotANumber, 0, 0, 0}})[0]));
}

TEST(Objective, ExactMatchWantsEveryTokenOfARow) {
    const ObjectiveRows rows{.kind = Objective::exact_match, .examples = {{.first_row = 1}, {.first_row = 3}}};
    EXPECT_THAT(judge(rows, {{9, 0, 9, 0}, {0, 1, 0, 0}, {0, 2, 0, 3}}), ElementsAre(0, 1, 2));
}

TEST(Objective, ChoiceLossIsTheSoftmaxOverScores) {
    // Scores -2 and -1.5 of the first example, -9 and -1 of the second.
    const double want = std::log(1 + std::exp(0.5)) + std::log(1 + std::exp(-8));
    EXPECT_NEAR(judge(two_examples(Objective::choice_loss), {{2, 3, 9, 3}})[0], want, 1e-12);
    EXPECT_NEAR(judge(two_examples(Objective::choice_loss), {{2e4, 3e5, 9, 3}})[0], std::log(1 + std::exp(-8)), 1e-12)
        << "far apart, and nothing overflows";
}

TEST(Objective, TangentsOfChoiceLossAreItsDerivatives) {
    const ObjectiveRows rows = two_examples(Objective::choice_loss);
    const std::vector<double> sums = {2, 3, 1.5, 4}, first = {0.3, -0.7, 2, 1}, second = {0, 1, -1, 0.5};
    const auto moved = [&](const std::vector<double>& by, double step) {
        std::vector<double> at = sums;
        for (size_t i = 0; i < at.size(); ++i) at[i] += step * by[i];
        return judge(rows, {at})[0];
    };
    const Recipe recipe{.passes = {{.kind = PassKind::tangent, .k = 2}}};
    const Rows batch;
    const std::vector<std::vector<double>> results = {sums, first, second};
    const std::vector<double> found =
        judge_step(rows, recipe, batch.micro(), [&](int result) { return results[static_cast<size_t>(result)]; });
    ASSERT_EQ(found.size(), 3u);
    EXPECT_NEAR(found[0], moved(first, 0), 1e-12);
    constexpr double kStep = 1e-5;  // central differences: an error of its square
    EXPECT_NEAR(found[1], (moved(first, kStep) - moved(first, -kStep)) / (2 * kStep), 1e-8);
    EXPECT_NEAR(found[2], (moved(second, kStep) - moved(second, -kStep)) / (2 * kStep), 1e-8);
}

}  // namespace
}  // namespace windlass
