// The products, the bias and its gradient against plain loops in double; learning; the same bits however it is
// computed.
#include <bit>
#include <cmath>

#include "device/cpu/isa.h"
#include "method/projector/bias.h"
#include "tests/unit/method/projector_case.h"

namespace windlass::projecting {
namespace {

TEST(Projector, BiasIsThatOfTheDenseProducts) {
    for (ProjectorCase& each : cases()) {
        const Reference want(each);
        const ProjectorBias got =
            each.with(2, [&](const ProjectorContext& c) { return projector_bias(c, each.gradient, each.values()); });
        // f32 sums of some hundred terms: a relative error of 1e-5 at most.
        EXPECT_NEAR(got.gradient, squares(want.g), 1e-6 * squares(want.g));
        EXPECT_NEAR(got.compressed, squares(want.s), 1e-5 * squares(want.s));
        EXPECT_NEAR(got.shown, squares(want.shown), 1e-5 * squares(want.shown));
        EXPECT_NEAR(got.difference, squares(want.difference), 1e-5 * squares(want.difference) + 1e-9);
    }
}

TEST(Projector, IdentityHasNoBias) {
    ProjectorCase each(48, 48, 48, 48, 1, 0);
    each.right = each.left;
    std::ranges::fill(each.left_values, 1.0f);
    std::ranges::fill(each.right_values, 1.0f);
    each.with(1, [&](const ProjectorContext& c) {
        const ProjectorBias bias = projector_bias(c, each.gradient, each.values());
        EXPECT_EQ(bias.relative(), 0.0);
        EXPECT_NEAR(bias.best_scale(), 1.0, 1e-12);  // the same squares, added in another order
    });
}

// E[P P^T G Q Q^T] = G for random signs, with a variance that follows from the shapes:
// |bias|^2 = ((1 + m / d_m) (1 + n / d_n) - 1) |G|^2 where positions are independent; balanced ones are a little
// better.
TEST(Projector, RandomSignsHaveTheBiasThatTheirShapeSays) {
    ProjectorCase each(256, 256, 128, 128, 8);
    Random random(3, RandomStream::test);
    const float size = 1 / std::sqrt(8.0f);
    for (const std::span<float> side : {each.values().left, each.values().right})
        for (float& value : side) value = random.below(2) == 0 ? size : -size;
    each.with(2, [&](const ProjectorContext& c) {
        const double relative = projector_bias(c, each.gradient, each.values()).relative();
        EXPECT_GT(relative, 2.2);
        EXPECT_LT(relative, std::sqrt(8.0) * 1.05);
    });
}

TEST(Projector, NoOtherScaleIsBetter) {
    ProjectorCase each(70, 45, 33, 20, 3);
    each.with(2, [&](const ProjectorContext& c) {
        rescale_projector(each.values(), projector_bias(c, each.gradient, each.values()).best_scale());
        const ProjectorBias best = projector_bias(c, each.gradient, each.values());
        EXPECT_NEAR(best.best_scale(), 1.0, 1e-5);
        EXPECT_LT(best.relative(), 1.0);
        for (const double other : {0.98, 1.02}) {
            ProjectorCase moved = each;
            rescale_projector(moved.values(), other);
            EXPECT_GT(projector_bias(c, each.gradient, moved.values()).relative(), best.relative());
        }
    });
}

// Central differences of the loss in double.
TEST(Projector, GradientIsThatOfFiniteDifferences) {
    for (ProjectorCase& each : cases()) {
        if (Reference(each).difference.data.size() > 4000) continue;
        ProjectorCase out = each;
        const double relative = each.with(3, [&](const ProjectorContext& c) {
            BiasPass pass(c, each.values());
            pass.set_gradient(each.gradient);
            return projector_gradient(pass, out.values());
        });
        const auto loss = [](const ProjectorCase& of) {
            const Reference at(of);
            return std::sqrt(squares(at.difference) / squares(at.g));
        };
        EXPECT_NEAR(relative, loss(each), 1e-5 * relative + 1e-9);
        if (relative == 0) continue;
        const auto check = [&](std::vector<float> ProjectorCase::*side) {
            double largest = 0;
            for (const float g : out.*side) largest = std::max(largest, std::abs(static_cast<double>(g)));
            for (size_t i = 0; i < (each.*side).size(); i += 1 + (each.*side).size() / 9) {
                // Steps that f32 holds exactly, so that the difference is of what was asked for.
                ProjectorCase up = each, down = each;
                constexpr float kStep = 0x1p-9f;
                (up.*side)[i] += kStep, (down.*side)[i] -= kStep;
                const double width = static_cast<double>((up.*side)[i]) - static_cast<double>((down.*side)[i]);
                // The loss's third derivative times 2^-18, and f32 sums: a thousandth of the largest.
                EXPECT_NEAR((out.*side)[i], (loss(up) - loss(down)) / width, 1e-3 * largest) << i;
            }
        };
        check(&ProjectorCase::left_values);
        check(&ProjectorCase::right_values);
    }
}

TEST(Projector, LearningLowersTheBiasAndEndsWhereItIsTold) {
    ProjectorCase each(96, 64, 48, 32, 4);
    each.with(2, [&](const ProjectorContext& c) {
        const ProjectorBias before = projector_bias(c, each.gradient, each.values());
        rescale_projector(each.values(), before.best_scale());
        const double rescaled = projector_bias(c, each.gradient, each.values()).relative();
        ProjectorCase none = each;
        const ProjectorLearned nothing = learn_projector(c, each.gradient, {.iterations = 0}, none.values());
        EXPECT_EQ(nothing.iterations, 0);
        EXPECT_EQ(nothing.relative, rescaled);
        EXPECT_EQ(none.left_values, each.left_values);
        const ProjectorLearned learned = learn_projector(c, each.gradient, {.iterations = 30}, each.values());
        EXPECT_EQ(learned.relative, projector_bias(c, each.gradient, each.values()).relative());
        EXPECT_LT(learned.relative, rescaled - 0.1);
        const ProjectorLearned enough =
            learn_projector(c, each.gradient, {.iterations = 30, .enough = learned.relative + 0.01}, each.values());
        EXPECT_EQ(enough.iterations, 0);
        const ProjectorLearned still =
            learn_projector(c, each.gradient, {.iterations = 100, .rate = 0, .patience = 4}, each.values());
        EXPECT_EQ(still.iterations, 4);
    });
}

TEST(Projector, LearningThatOvershootsLeavesTheBest) {
    ProjectorCase each(96, 64, 48, 32, 4);
    each.with(2, [&](const ProjectorContext& c) {
        rescale_projector(each.values(), projector_bias(c, each.gradient, each.values()).best_scale());
        const ProjectorCase before = each;
        const double relative = projector_bias(c, each.gradient, each.values()).relative();
        const ProjectorLearned learned =
            learn_projector(c, each.gradient, {.iterations = 2, .rate = 50}, each.values());
        EXPECT_EQ(learned.iterations, 2);
        EXPECT_EQ(learned.relative, relative);
        EXPECT_EQ(each.left_values, before.left_values);
        EXPECT_EQ(each.right_values, before.right_values);
    });
}

TEST(Projector, NeitherThreadsNorInstructionSetsShow) {
    const Isa before = cpu_isa();
    std::vector<uint64_t> want;
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512})
        for (const int threads : {1, 3}) {
            if (isa > detected_isa()) continue;
            set_cpu_isa(isa);
            // More than kPieces panels of G and of G Q.
            ProjectorCase each(1100, 640, 33, 600, 3);
            const double relative = each.with(threads, [&](const ProjectorContext& c) {
                return learn_projector(c, each.gradient, {.iterations = 3}, each.values()).relative;
            });
            std::vector<uint64_t> got{std::bit_cast<uint64_t>(relative)};
            for (const std::span<float> side : {each.values().left, each.values().right})
                for (const float value : side) got.push_back(std::bit_cast<uint32_t>(value));
            if (want.empty()) want = got;
            EXPECT_TRUE(got == want) << isa_name(isa) << ", " << threads << " threads";
        }
    set_cpu_isa(before);
}

}  // namespace
}  // namespace windlass::projecting
