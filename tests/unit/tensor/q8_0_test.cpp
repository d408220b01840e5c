// Blocks of 32 numbers in 8 bits: ggml's arithmetic, written out again beside it.
#include "tensor/q8_0.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tensor/dtype.h"

namespace windlass {
namespace {

struct Q8 {
    uint16_t scale = 0;
    int8_t numbers[kQ8Block] = {};
};
static_assert(sizeof(Q8) == kQ8BlockBytes);

std::vector<Q8> q8_of(const std::vector<float>& numbers) {
    std::vector<Q8> blocks(numbers.size() / kQ8Block);
    encode_q8_0(numbers, std::as_writable_bytes(std::span(blocks)));
    return blocks;
}

TEST(Q8, TheLargestIs127AndZerosStayZeros) {
    std::vector<float> numbers(64, 0.0f);
    numbers[5] = -2.0f;
    numbers[6] = 1.0f;
    const std::vector<Q8> blocks = q8_of(numbers);
    EXPECT_EQ(blocks[0].numbers[5], -127);
    EXPECT_EQ(blocks[0].numbers[6], 64);  // 63.5, away from zero
    EXPECT_EQ(blocks[0].numbers[0], 0);
    EXPECT_EQ(blocks[0].scale, float_to_half(2.0f / 127.0f));
    EXPECT_EQ(blocks[1].scale, 0);
    EXPECT_EQ(blocks[1].numbers[31], 0);
}

// A byte is off by half a unit at most, and the scale by half a last place of f16: 2^-11 of up to 127 units.
TEST(Q8, IsWithinHalfAUnitOfItsScale) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> numbers(32 * 1000);
    for (size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = std::ldexp(normal(random), static_cast<int>(i / 32 % 20) - 8);
    const std::vector<Q8> blocks = q8_of(numbers);
    for (size_t i = 0; i < numbers.size(); ++i) {
        const Q8& block = blocks[i / 32];
        const float scale = half_to_float(block.scale);
        ASSERT_NEAR(static_cast<float>(block.numbers[i % 32]) * scale, numbers[i],
                    scale * (0.5f + 127.0f / 2048 + 0.001f))
            << i;
    }
}

TEST(Q8, HoldsNumbersUpToItsLimit) {
    std::vector<float> numbers(32, kQ8Most);
    EXPECT_EQ(half_to_float(q8_of(numbers)[0].scale), 65504.0f);
    EXPECT_EQ(q8_of(numbers)[0].numbers[31], 127);
}

}  // namespace
}  // namespace windlass
