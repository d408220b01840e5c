#include "train/loss_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace windlass {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Ticks, AreMultiplesOfOneTwoOrFive) {
    EXPECT_THAT(nice_ticks(0, 10, 5), testing::ElementsAre(0, 2, 4, 6, 8, 10));
    EXPECT_THAT(nice_ticks(1.2, 3.1, 4), testing::Pointwise(testing::DoubleNear(1e-12), {1.5, 2.0, 2.5, 3.0}));
    EXPECT_THAT(nice_ticks(-1, 1, 4), testing::Pointwise(testing::DoubleNear(1e-12), {-1.0, -0.5, 0.0, 0.5, 1.0}));
    EXPECT_THAT(nice_ticks(5, 5, 4), testing::ElementsAre(5));
    EXPECT_LE(nice_ticks(0, 1e300, 4).size(), 10u);
}

TEST(LossSvg, DrawsBothCurves) {
    const std::string svg = loss_svg({.train = {{1, 3.0}, {2, 2.5}, {3, 2.25}}, .eval = {{3, 2.4}}}, "runs/<first>");
    EXPECT_THAT(svg, testing::StartsWith("<svg xmlns"));
    EXPECT_THAT(svg, HasSubstr("runs/&lt;first&gt;"));
    EXPECT_THAT(svg, HasSubstr("evaluation"));
    EXPECT_THAT(svg, HasSubstr("<circle"));
    EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(LossSvg, StaysSmallAndFiniteWhateverItIsGiven) {
    LossCurves curves;
    for (int64_t step = 1; step <= 100000; ++step) curves.train.push_back({step, 1.0 / static_cast<double>(step)});
    EXPECT_LT(loss_svg(curves, "long").size(), 100000u);
    curves.train = {{1, 2.0}, {2, NAN}, {3, INFINITY}, {4, 1.0}};
    const std::string gaps = loss_svg(curves, "gaps");
    EXPECT_THAT(gaps, Not(HasSubstr("nan")));
    EXPECT_THAT(gaps, Not(HasSubstr("inf")));
    EXPECT_THAT(loss_svg({}, "empty"), HasSubstr("no steps yet"));
    EXPECT_THAT(loss_svg({.train = {{1, 0.0}}}, "one"), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace windlass
