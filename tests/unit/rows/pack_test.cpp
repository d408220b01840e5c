#include "rows/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/rng.h"

namespace windlass {
namespace {

std::vector<uint32_t> random_lengths(size_t count, uint64_t seed, uint64_t longest) {
    Random random(seed, RandomStream::test);
    std::vector<uint32_t> lengths(count);
    for (auto& length : lengths) length = static_cast<uint32_t>(1 + random.below(longest));
    return lengths;
}

std::vector<uint32_t> counting(size_t count) {
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0u);
    return order;
}

TEST(Pack, PlacesEachSampleOnceWithinTheLimit) {
    const auto lengths = random_lengths(5000, 1, 512);
    auto order = counting(lengths.size());
    std::reverse(order.begin(), order.end());
    const auto rows = pack_samples(lengths, order, 512);
    std::vector<uint32_t> seen;
    for (const auto& row : rows) {
        int64_t tokens = 0;
        for (const uint32_t sample : row.samples) tokens += lengths[sample];
        EXPECT_LE(tokens, 512);
        EXPECT_FALSE(row.samples.empty());
        seen.insert(seen.end(), row.samples.begin(), row.samples.end());
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, counting(lengths.size()));
}

TEST(Pack, FillsRowsWell) {
    const auto lengths = random_lengths(10240, 2, 400);
    const auto rows = pack_samples(lengths, counting(lengths.size()), 2048);
    const auto tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    EXPECT_GT(static_cast<double>(tokens) / (2048.0 * static_cast<double>(rows.size())), 0.985);
}

TEST(Pack, KeepsTheOrderOfTheEpochByWindow) {
    const auto lengths = random_lengths(3000, 3, 100);
    const auto rows = pack_samples(lengths, counting(lengths.size()), 1000);
    uint32_t first = 0;
    for (const auto& row : rows) {
        EXPECT_TRUE(std::is_sorted(row.samples.begin(), row.samples.end()));
        EXPECT_GE(row.samples.front(), first);
        first = row.samples.front();
        EXPECT_EQ(row.samples.front() / kPackWindow, row.samples.back() / kPackWindow);
    }
}

TEST(Pack, DependsOnItsArgumentsAlone) {
    const std::vector<uint32_t> lengths = {5, 5, 3, 7, 2, 8, 10};
    const std::vector<uint32_t> order = {6, 0, 1, 2, 3, 4, 5};
    std::vector<std::vector<uint32_t>> rows;
    for (const auto& row : pack_samples(lengths, order, 10)) rows.push_back(row.samples);
    EXPECT_EQ(rows, (std::vector<std::vector<uint32_t>>{{6}, {0, 1}, {2, 3}, {4, 5}}));
    EXPECT_TRUE(pack_samples(lengths, {}, 10).empty());
}

TEST(Pack, CanBeLeftOut) {
    const std::vector<uint32_t> order = {2, 0, 1};
    const auto rows = rows_without_packing(order);
    ASSERT_EQ(rows.size(), 3u);
    EXPECT_EQ(rows[0].samples, (std::vector<uint32_t>{2}));
}

}  // namespace
}  // namespace windlass
