// What the directions' numbers are distributed as, over ten million draws of a fixed seed.
//
// Limits are five standard deviations of what truly independent numbers would give, unless said otherwise: the seed is
// fixed, so a test either always passes or never does, and five are missed by one seed in 1.7 million.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/perturb/noise_reference.h"

namespace windlass {
namespace {

constexpr int64_t kDraws = 10'000'000;
constexpr double kRootDraws = 3162.2776601683795;
constexpr double kLimit = 5;

std::vector<float> draws(NoiseKind kind, uint64_t seed = 1, uint32_t step = 1, uint32_t direction = 0,
                         int64_t element = 0, int64_t count = kDraws) {
    std::vector<float> z(static_cast<size_t>(count));
    const NoiseRun run{.seed = seed, .kind = kind, .element = element, .count = count};
    write_direction(run, {step, direction, 1.0f, nullptr, nullptr}, WeightType::f32, z.data(),
                    *make_stream(DeviceKind::cpu, 2));
    return z;
}

// Mean of x^power.
double moment(const std::vector<float>& z, int power) {
    double sum = 0;
    for (const float x : z) {
        double product = 1;
        for (int p = 0; p < power; ++p) product *= x;
        sum += product;
    }
    return sum / static_cast<double>(z.size());
}

// Mean of x_i y_(i + lag), which has the variance 1 / n.
double correlation(const std::vector<float>& x, const std::vector<float>& y, size_t lag = 0) {
    double sum = 0;
    for (size_t i = 0; i + lag < x.size(); ++i) sum += static_cast<double>(x[i]) * y[i + lag];
    return sum / static_cast<double>(x.size() - lag);
}

double normal_below(double x) {
    return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

// E z^2 = 1, E z^4 = 3, E z^6 = 15, E z^8 = 105: the variances of the means of z, z^2, z^3 and z^4 are 1, 2, 15, 96.
TEST(NoiseDistribution, GaussianMoments) {
    const std::vector<float> z = draws(NoiseKind::gaussian);
    EXPECT_NEAR(moment(z, 1), 0, kLimit / kRootDraws);
    EXPECT_NEAR(moment(z, 2), 1, kLimit * std::sqrt(2.0) / kRootDraws);
    EXPECT_NEAR(moment(z, 3), 0, kLimit * std::sqrt(15.0) / kRootDraws);
    EXPECT_NEAR(moment(z, 4), 3, kLimit * std::sqrt(96.0) / kRootDraws);
}

// Counts over equal bins of probability: chi-square of b bins has the mean b - 1 and the variance 2 (b - 1).
void expect_even(const std::vector<double>& bins) {
    const auto b = static_cast<double>(bins.size());
    double total = 0, sum = 0;
    for (const double count : bins) total += count;
    for (const double count : bins) sum += std::pow(count - total / b, 2) / (total / b);
    EXPECT_NEAR(sum, b - 1, kLimit * std::sqrt(2 * (b - 1)));
}

// All numbers, and those of each of a counter's four words.
TEST(NoiseDistribution, GaussianFillsItsBinsEvenly) {
    constexpr size_t kFine = 1 << 16, kBins = 64;
    const std::vector<float> z = draws(NoiseKind::gaussian);
    std::vector<double> fine(kFine), all(kBins);
    std::array<std::vector<double>, 4> of_word;
    of_word.fill(all);
    for (size_t i = 0; i < z.size(); ++i) {
        const size_t bin = std::min(static_cast<size_t>(normal_below(z[i]) * kFine), kFine - 1);
        ++fine[bin];
        ++all[bin / (kFine / kBins)];
        ++of_word[i % 4][bin / (kFine / kBins)];
    }
    expect_even(all);
    for (const std::vector<double>& bins : of_word) expect_even(bins);
    // Kolmogorov and Smirnov, at the bins' edges: sqrt(n) sup |F_n - F| exceeds 2.3 once in 20 000 times.
    double below = 0, distance = 0;
    for (size_t bin = 0; bin < kFine; ++bin) {
        below += fine[bin] / kDraws;
        distance = std::max(distance, std::abs(below - static_cast<double>(bin + 1) / kFine));
    }
    EXPECT_LT(distance * kRootDraws, 2.3);
}

TEST(NoiseDistribution, GaussianHasItsTails) {
    const std::vector<float> z = draws(NoiseKind::gaussian);
    for (const double edge : {3.0, 4.0, 4.5}) {
        const double expected = kDraws * 2 * normal_below(-edge);
        const auto beyond = std::count_if(z.begin(), z.end(), [&](float x) { return std::abs(x) > edge; });
        EXPECT_NEAR(static_cast<double>(beyond), expected, kLimit * std::sqrt(expected)) << edge;
    }
    const auto [least, most] = std::minmax_element(z.begin(), z.end());
    EXPECT_GT(std::max(-*least, *most), 5.0f);  // 5.7 of ten million are expected beyond
    EXPECT_LT(std::max(-*least, *most), 6.6f);  // the least u gives 6.56
}

TEST(NoiseDistribution, SignsAreEvenInEveryBit) {
    const std::vector<float> z = draws(NoiseKind::rademacher);
    EXPECT_NEAR(moment(z, 1), 0, kLimit / kRootDraws);
    std::array<double, 128> sums{};
    for (size_t i = 0; i < z.size(); ++i) {
        ASSERT_EQ(std::abs(z[i]), 1.0f);
        sums[i % 128] += z[i];
    }
    for (const double sum : sums) EXPECT_LT(std::abs(sum), kLimit * std::sqrt(kDraws / 128.0));
}

TEST(NoiseDistribution, NumbersDoNotKnowTheirNeighbours) {
    for (const NoiseKind kind : {NoiseKind::gaussian, NoiseKind::rademacher}) {
        const std::vector<float> z = draws(kind);
        for (const size_t lag : {1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 127, 128, 129, 512, 4096})
            EXPECT_LT(std::abs(correlation(z, z, lag)), kLimit / kRootDraws) << lag;
        // Squares neither: what one radius does to both of its numbers. z^2 - 1 has the variance 2, or is nothing.
        if (kind == NoiseKind::rademacher) continue;
        std::vector<float> squares(z.size());
        for (size_t i = 0; i < z.size(); ++i) squares[i] = z[i] * z[i] - 1;
        for (const size_t lag : {1, 2, 3, 4, 128})
            EXPECT_LT(std::abs(correlation(squares, squares, lag)), kLimit * 2 / kRootDraws) << lag;
    }
}

TEST(NoiseDistribution, DirectionsStepsSeedsAndKindsAreStrangers) {
    for (const NoiseKind kind : {NoiseKind::gaussian, NoiseKind::rademacher}) {
        const std::vector<float> z = draws(kind);
        EXPECT_LT(std::abs(correlation(z, draws(kind, 1, 1, 1))), kLimit / kRootDraws);
        EXPECT_LT(std::abs(correlation(z, draws(kind, 1, 2, 0))), kLimit / kRootDraws);
        EXPECT_LT(std::abs(correlation(z, draws(kind, 2, 1, 0))), kLimit / kRootDraws);
        EXPECT_LT(std::abs(correlation(z, draws(kind, 1, 1, 0, kDraws))), kLimit / kRootDraws);
        EXPECT_LT(std::abs(correlation(z, draws(NoiseKind::left_factor))), kLimit / kRootDraws);
    }
    EXPECT_LT(std::abs(correlation(draws(NoiseKind::left_factor), draws(NoiseKind::right_factor))),
              kLimit / kRootDraws);
}

// u v^T / sqrt(r): the mean of squares is that of u's and v's entries, all 1; of 1000 x 800 entries of rank 4 it varies
// with the 7200 entries of the factors.
TEST(NoiseDistribution, LowRankHasUnitVariance) {
    constexpr int64_t kRows = 1000, kCols = 800, kRank = 4;
    const std::vector<float> u = draws(NoiseKind::left_factor, 1, 1, 0, 0, kRows * kRank);
    const std::vector<float> v = draws(NoiseKind::right_factor, 1, 1, 0, 0, kCols * kRank);
    std::vector<float> z(static_cast<size_t>(kRows * kCols));
    const NoiseRun run{
        .seed = 1, .kind = NoiseKind::low_rank, .count = kRows * kCols, .rows = kRows, .cols = kCols, .rank = kRank};
    write_direction(run, {0, 0, low_rank_coefficient(1, kRank), u.data(), v.data()}, WeightType::f32, z.data(),
                    *make_stream(DeviceKind::cpu, 1));
    EXPECT_NEAR(moment(z, 2), 1, kLimit * std::sqrt(2.0 / (kRows * kRank) + 2.0 / (kCols * kRank)));
    EXPECT_NEAR(moment(z, 1), 0, kLimit / std::sqrt(kRows * kCols));
}

}  // namespace
}  // namespace windlass
