// Gradients in narrow forms: the formulas in double, no bias, the same bits however a call is cut, and what is not
// finite is seen.
#include "method/round_gradient.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/index.h"
#include "base/math.h"
#include "base/rng.h"
#include "device/cpu/isa.h"
#include "tensor/dtype.h"

namespace windlass {
namespace {

constexpr GradientFormat kNarrowFormats[] = {GradientFormat::bf16, GradientFormat::i8, GradientFormat::i4};

struct Rounded {
    std::vector<float> sums;
    std::vector<std::byte> narrow;
    bool operator==(const Rounded&) const = default;
};

struct How {
    int threads = 1;
    uint64_t seed = 7;
};
Rounded rounded(GradientFormat format, std::vector<float> sums, int64_t element, int64_t step, How how = {}) {
    Rounded result{std::move(sums), {}};
    const int64_t count = std::ssize(result.sums);
    result.narrow.resize(at(gradient_bytes(format, count)));
    const StepParams params{.seed = how.seed, .step = step};
    const std::unique_ptr<Stream> stream = make_device({DeviceKind::cpu})->make_stream(how.threads);
    stream->launch([&](const Launch& launch) {
        round_gradient({.format = format,
                        .step = &params,
                        .element = element,
                        .count = count,
                        .sum = result.sums.data(),
                        .narrow = result.narrow.data()},
                       launch.stream());
    });
    stream->synchronize();
    return result;
}

std::vector<float> widened(GradientFormat format, const std::vector<std::byte>& narrow, int64_t count) {
    std::vector<float> wide(at(count));
    const std::unique_ptr<Stream> stream = make_device({DeviceKind::cpu})->make_stream(2);
    stream->launch([&](const Launch& launch) {
        widen_gradient({.format = format, .count = count, .narrow = narrow.data(), .wide = wide.data()},
                       launch.stream());
    });
    stream->synchronize();
    return wide;
}

std::vector<float> gradients(int64_t count, uint64_t seed) {
    Random random(seed, RandomStream::test);
    std::vector<float> values(at(count));
    for (float& value : values) value = random.normal() * std::pow(10.0f, static_cast<float>(random.below(8)) - 6.0f);
    return values;
}

// The smallest bf16 number that is not below x >= 0.
double bf16_above(double x) {
    float narrow = static_cast<float>(x);
    if (narrow < x) narrow = std::nextafter(narrow, std::numeric_limits<float>::infinity());
    const uint32_t bits = std::bit_cast<uint32_t>(narrow);
    return std::bit_cast<float>((bits + 0xffffu) & 0xffff0000u);
}

class RoundedGradient : public testing::TestWithParam<GradientFormat> {};

// A sum becomes one of the two numbers of the form that are next to it.
TEST_P(RoundedGradient, IsANeighbourOfTheSum) {
    const GradientFormat format = GetParam();
    const std::vector<float> sums = gradients(1111, 3);
    const Rounded found = rounded(format, sums, 256 * 5, 2);
    const int64_t block = gradient_block(format);
    const double levels = format == GradientFormat::i8 ? 127 : 7;
    double unit = 0;
    for (int64_t i = 0; i < std::ssize(sums); ++i) {
        const double x = sums[at(i)], y = found.sums[at(i)];
        if (block == 1) {
            EXPECT_EQ(std::bit_cast<uint32_t>(found.sums[at(i)]) & 0xffffu, 0u);
            const double apart = std::ldexp(1.0, std::ilogb(x) - 7);  // 8 bits of mantissa
            EXPECT_LT(std::abs(x - y), apart) << i;
            continue;
        }
        if (i % block == 0) {
            double largest = 0;
            for (int64_t j = i; j < std::min(i + block, std::ssize(sums)); ++j)
                largest = std::max(largest, std::abs(double{sums[at(j)]}));
            // A quotient that is rounded to f32 first may be one bf16 number above.
            unit = bf16_above(static_cast<float>(largest / levels));
        }
        const double multiple = y / unit;
        EXPECT_EQ(multiple, std::round(multiple)) << i;
        EXPECT_LE(std::abs(multiple), levels) << i;
        EXPECT_LT(std::abs(x - y), unit * (1 + 1e-6)) << i;  // quotients are rounded to 24 bits
    }
}

TEST_P(RoundedGradient, IsKeptExactly) {
    for (const int64_t count : {int64_t{1}, int64_t{63}, int64_t{256}, int64_t{1001}, int64_t{70'001}}) {
        const Rounded found = rounded(GetParam(), gradients(count, 5), 0, 1);
        EXPECT_EQ(widened(GetParam(), found.narrow, count), found.sums) << count;
    }
}

// The mean of n roundings of x lies within 5 standard errors of it: a rounding is off by one unit at most, so its
// variance is at most a quarter of the unit's square.
TEST_P(RoundedGradient, IsWhatItWasOnTheAverage) {
    constexpr int kSteps = 4000;
    const std::vector<float> sums = gradients(256, 11);
    std::vector<double> mean(sums.size()), unit(sums.size());
    for (int step = 1; step <= kSteps; ++step) {
        const Rounded found = rounded(GetParam(), sums, 0, step);
        for (size_t i = 0; i < sums.size(); ++i) mean[i] += found.sums[i] / kSteps;
    }
    const int64_t block = gradient_block(GetParam());
    double sum_of_errors = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
        float largest = 0;
        for (size_t j = i / at(block) * at(block), n = 0; n < at(block) && block > 1; ++n)
            largest = std::max(largest, std::abs(sums[j + n]));
        const double levels = GetParam() == GradientFormat::i8 ? 127 : 7;
        unit[i] = block > 1 ? bf16_above(largest / levels) : std::ldexp(1.0, std::ilogb(sums[i]) - 7);
        EXPECT_NEAR(mean[i], sums[i], 5 * 0.5 * unit[i] / std::sqrt(kSteps)) << i;
        sum_of_errors += (mean[i] - sums[i]) / unit[i];
    }
    // And of all of them together: not one below by a hair each.
    EXPECT_LT(std::abs(sum_of_errors), 5 * 0.5 * std::sqrt(256.0 / kSteps));
}

TEST_P(RoundedGradient, DoesNotDependOnTheCutOrTheTeam) {
    const std::vector<float> sums = gradients(200'000, 13);
    const Rounded whole = rounded(GetParam(), sums, 512, 3),
                  by_three = rounded(GetParam(), sums, 512, 3, {.threads = 3});
    EXPECT_TRUE(whole == by_three);
    const int64_t cut = 256 * 300;
    const Rounded behind = rounded(GetParam(), {sums.begin() + cut, sums.end()}, 512 + cut, 3);
    EXPECT_TRUE(std::equal(behind.sums.begin(), behind.sums.end(), whole.sums.begin() + cut));
}

TEST_P(RoundedGradient, DependsOnTheSeedTheStepAndThePlace) {
    const std::vector<float> sums = gradients(4096, 17);
    const Rounded first = rounded(GetParam(), sums, 0, 1);
    EXPECT_NE(first.sums, rounded(GetParam(), sums, 0, 2).sums);
    EXPECT_NE(first.sums, rounded(GetParam(), sums, 256, 1).sums);
    EXPECT_NE(first.sums, rounded(GetParam(), sums, 0, 1, {.seed = 8}).sums);
}

TEST_P(RoundedGradient, IsNotFiniteWhereTheSumIsNot) {
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0xffffffffu)}) {
        std::vector<float> sums = gradients(700, 19);
        sums[300] = bad;
        const Rounded found = rounded(GetParam(), sums, 0, 1);
        EXPECT_FALSE(std::isfinite(found.sums[300]));
        EXPECT_TRUE(std::isfinite(found.sums[0]));
        EXPECT_FALSE(std::isfinite(widened(GetParam(), found.narrow, 700)[300]));
    }
}

TEST_P(RoundedGradient, OfZeroIsZeroAndOfTheSmallestNumbersIsFinite) {
    EXPECT_EQ(rounded(GetParam(), std::vector<float>(300, 0.0f), 0, 1).sums, std::vector<float>(300, 0.0f));
    for (const float tiny : {1e-45f, 1e-40f, 3e38f}) {
        std::vector<float> sums(300, tiny);
        for (const float found : rounded(GetParam(), sums, 0, 1).sums) EXPECT_TRUE(std::isfinite(found)) << tiny;
    }
}

INSTANTIATE_TEST_SUITE_P(Formats, RoundedGradient, testing::ValuesIn(kNarrowFormats));

TEST(GradientFormat, BytesOfAChunk) {
    constexpr int64_t kNumbers = int64_t{1} << 22;
    EXPECT_EQ(gradient_bytes(GradientFormat::f32, kNumbers), 4 * kNumbers);
    EXPECT_EQ(gradient_bytes(GradientFormat::bf16, kNumbers), 2 * kNumbers);
    EXPECT_EQ(gradient_bytes(GradientFormat::i8, kNumbers), kNumbers + kNumbers / 256 * 2);
    EXPECT_EQ(gradient_bytes(GradientFormat::i4, kNumbers), kNumbers / 2 + kNumbers / 64 * 2);
    EXPECT_EQ(gradient_bytes(GradientFormat::i4, 65), 64 + 2 * 2);
}

}  // namespace
}  // namespace windlass
