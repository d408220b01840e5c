// Gelu and swiglu where formulas lose digits: tails, saturation, numbers that are none.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "op/pointwise/cells.h"
#include "tests/unit/op/every_isa.h"

namespace windlass {
namespace {

std::vector<float> grid(float from, float to, float step) {
    std::vector<float> numbers;
    for (float x = from; x <= to; x += step) numbers.push_back(x);
    return numbers;
}

// loop(x, 1, 1) for each x: gelu(x), gelu'(x), or swiglu(x, 1).
std::vector<float> apply(PointwiseLoop* loop, const std::vector<float>& x) {
    const std::vector<float> ones(x.size(), 1.0f);
    std::vector<float> y(x.size()), spare(x.size());
    const std::array in = {x.data(), ones.data(), ones.data()};
    const std::array out = {y.data(), spare.data()};
    loop(in.data(), out.data(), static_cast<int64_t>(x.size()));
    return y;
}

// Largest |got - want| over |want| plus a millionth of a millionth (results below that do not matter).
template <typename F>
double worst(const std::vector<float>& x, const std::vector<float>& got, F want) {
    double error = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        const double truth = want(static_cast<double>(x[i]));
        error = std::max(error, std::abs(got[i] - truth) / (std::abs(truth) + 1e-12));
    }
    return error;
}

double density(double x) {
    return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
}
double distribution(double x) {
    return std::erfc(-x / std::numbers::sqrt2) / 2;
}
double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}

// Far out in the lower tail the exponent x^2 / 2 is itself rounded: relative 2^-24 * 25 at x = -7.
TEST(Gelu, ExactKeepsItsDigitsInTheTail) {
    on_every_isa([] {
        const std::vector<float> x = grid(-7, 9, 0.00137f);
        EXPECT_LT(worst(x, apply(pointwise_loops(Pointwise::gelu_exact).forward, x),
                        [](double v) { return v * distribution(v); }),
                  3e-6);
    });
}

TEST(Gelu, SlopeOfExact) {
    on_every_isa([] {
        const std::vector<float> x = grid(-7, 9, 0.00137f);
        const std::vector<float> got = apply(pointwise_loops(Pointwise::gelu_exact).backward, x);
        for (size_t i = 0; i < x.size(); ++i) {  // absolute: the slope crosses zero
            ASSERT_NEAR(got[i], distribution(x[i]) + x[i] * density(x[i]), 3e-7) << x[i];
        }
    });
}

TEST(Gelu, TanhKeepsItsDigitsInTheTail) {
    on_every_isa([] {
        const std::vector<float> x = grid(-5, 9, 0.00137f);
        const auto want = [](double v) {
            return v * sigmoid(2 * std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v));
        };
        EXPECT_LT(worst(x, apply(pointwise_loops(Pointwise::gelu_tanh).forward, x), want), 3e-6);
    });
}

TEST(Swiglu, SiluIsAccurate) {
    on_every_isa([] {
        const std::vector<float> x = grid(-25, 25, 0.0037f);
        EXPECT_LT(
            worst(x, apply(pointwise_loops(Pointwise::silu_gate).forward, x), [](double v) { return v * sigmoid(v); }),
            1e-6);
    });
}

TEST(Activations, SaturateWithoutSurprises) {
    const std::vector<float> large = {-3e38f, -1e10f, -300.0f, 300.0f, 1e10f};
    on_every_isa([&] {
        for (const PointwiseLoops* loops :
             {&pointwise_loops(Pointwise::gelu_exact), &pointwise_loops(Pointwise::silu_gate)}) {
            const std::vector<float> y = apply(loops->forward, large), slope = apply(loops->backward, large);
            for (size_t i = 0; i < large.size(); ++i) {
                EXPECT_NEAR(y[i], std::max(large[i], 0.0f), 6.0f) << large[i];  // silu(-3e38) is -3e38 / e^87
                EXPECT_NEAR(slope[i], large[i] > 0 ? 1.0f : 0.0f, 6.0f) << large[i];
            }
        }
    });
}

// A loss that is not a number must stay one on its way to the test that stops the step.
TEST(Activations, NanStaysNan) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> x(37, nan);
    on_every_isa([&] {
        for (const PointwiseLoops* loops :
             {&pointwise_loops(Pointwise::gelu_exact), &pointwise_loops(Pointwise::gelu_tanh),
              &pointwise_loops(Pointwise::silu_gate), &pointwise_loops(Pointwise::relu)}) {
            for (const float y : apply(loops->forward, x)) EXPECT_TRUE(std::isnan(y));
        }
        for (const PointwiseLoops* loops :
             {&pointwise_loops(Pointwise::gelu_exact), &pointwise_loops(Pointwise::gelu_tanh),
              &pointwise_loops(Pointwise::silu_gate)}) {
            for (const float y : apply(loops->backward, x)) EXPECT_TRUE(std::isnan(y));
        }
    });
}

}  // namespace
}  // namespace windlass
