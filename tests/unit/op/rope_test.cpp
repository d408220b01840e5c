#include "op/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "device/cpu/isa.h"
#include "op/ops.h"
#include "tests/unit/op/every_isa.h"

namespace windlass {
namespace {

constexpr IsaKernel<const RopeLoops> kLoops{&baseline::kRopeLoops, &avx2::kRopeLoops, &avx512::kRopeLoops};

std::vector<float> frequencies(double theta, int64_t pairs) {
    std::vector<float> list;
    for (int64_t i = 0; i < pairs; ++i) {
        list.push_back(static_cast<float>(std::pow(theta, -static_cast<double>(i) / static_cast<double>(pairs))));
    }
    return list;
}

// Contexts of a million tokens, both directions of rotation: half a unit in the last place of f32.
TEST(Rope, AnglesAreAccurateAtAnyPosition) {
    const std::vector<float> table = frequencies(5e5, 37);
    on_every_isa([&] {
        std::vector<float> cos(table.size()), sin(table.size());
        for (int32_t position = 0; position < 1 << 20; position = position * 5 / 4 + 1) {
            for (const int32_t at : {position, -position}) {
                kLoops.pick()->angles(at, table.data(), cos.data(), sin.data(), static_cast<int64_t>(table.size()));
                for (size_t i = 0; i < table.size(); ++i) {
                    const double angle = static_cast<float>(at) * table[i];
                    ASSERT_NEAR(cos[i], std::cos(angle), 6e-8) << at << " * " << table[i];
                    ASSERT_NEAR(sin[i], std::sin(angle), 6e-8) << at << " * " << table[i];
                }
            }
        }
    });
}

// Transformers multiplies and takes cosines in f32; so does the C library here.
TEST(Rope, AnglesAgreeWithSinglePrecisionArithmetic) {
    const std::vector<float> table = frequencies(1e4, 64);
    std::vector<float> cos(table.size()), sin(table.size());
    for (int32_t position = 0; position < 8192; position += 13) {
        kLoops.pick()->angles(position, table.data(), cos.data(), sin.data(), static_cast<int64_t>(table.size()));
        for (size_t i = 0; i < table.size(); ++i) {
            const float angle = static_cast<float>(position) * table[i];
            ASSERT_NEAR(cos[i], std::cos(angle), 1.2e-7);
            ASSERT_NEAR(sin[i], std::sin(angle), 1.2e-7);
        }
    }
}

TEST(Rope, PositionZeroRotatesNothing) {
    const std::vector<float> table = frequencies(1e4, 16);
    std::vector<float> cos(16), sin(16), x(32), y(32);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 7.5f;
    on_every_isa([&] {
        kLoops.pick()->angles(0, table.data(), cos.data(), sin.data(), 16);
        kLoops.pick()->rotate(x.data(), cos.data(), sin.data(), y.data(), 1, 16);
        EXPECT_EQ(y, x);
    });
}

TEST(RopeDeathTest, WantsHeadsThatFillTheColumns) {
    OpSpec spec{.attrs = RopeAttrs{3, {1.0, 0.1}}, .in = {{16}}};
    EXPECT_DEATH(kRope.infer(spec), "3 heads of 4 columns");
}

}  // namespace
}  // namespace windlass
