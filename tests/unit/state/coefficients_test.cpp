#include "state/coefficients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/program.h"
#include "op/ops.h"
#include "tests/unit/method/lone_model.h"

namespace windlass {
namespace {

TrainedModel with_rope(std::vector<double> frequencies) {
    TrainedModel model = lone_model({ParamSpec{.name = "w", .shape = {2, 2}}});
    auto program = std::make_shared<Program>();
    program->nodes.push_back({.op = &kRope, .spec = {.attrs = RopeAttrs{1, std::move(frequencies)}}});
    model.blocks = {{.name = "layers.0", .program = std::move(program)}};
    return model;
}

// Their sum is the same.
TEST(Coefficients, TellTablesApartByEveryNumber) {
    const Coefficients one = coefficients_of(with_rope({1, 0.5, 0.25}));
    EXPECT_EQ(one.rope, coefficients_of(with_rope({1, 0.5, 0.25})).rope);
    EXPECT_NE(one.rope, coefficients_of(with_rope({1, 0.25, 0.5})).rope);
    EXPECT_NE(one.rope, coefficients_of(with_rope({1, 0.5, 0.25 + 0x1p-54})).rope);
    EXPECT_EQ(one.libm, coefficients_of(with_rope({})).libm);
    EXPECT_EQ(one.libm.size(), 16u);
    EXPECT_FALSE(one.products.empty());
    EXPECT_THAT(one.library, testing::ContainsRegex("^oneDNN [0-9]+\\.[0-9]+\\.[0-9]+$"));
}

}  // namespace
}  // namespace windlass
