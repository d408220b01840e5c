#include "data/data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"

namespace windlass {
namespace {

std::vector<uint32_t> counted(int64_t count) {
    std::vector<uint32_t> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0u);
    return all;
}

TEST(Shuffle, IsAPermutationThatDependsOnSeedAndEpochOnly) {
    const std::vector<uint32_t> first = shuffled_indices(100, 7, 0);
    EXPECT_THAT(first, testing::UnorderedElementsAreArray(counted(100)));
    EXPECT_EQ(first, shuffled_indices(100, 7, 0));
    EXPECT_NE(first, shuffled_indices(100, 7, 1));
    EXPECT_NE(first, shuffled_indices(100, 8, 0));
    EXPECT_TRUE(shuffled_indices(0, 1, 0).empty());
}

TEST(Validation, TakesAShareOrACount) {
    EXPECT_EQ(validation_indices(100, 0.05, 1).size(), 5u);
    EXPECT_EQ(validation_indices(10, 0.01, 1).size(), 1u);
    EXPECT_EQ(validation_indices(100, 7, 1).size(), 7u);
    EXPECT_TRUE(validation_indices(100, 0, 1).empty());
    EXPECT_EQ(validation_indices(100, 7, 1), validation_indices(100, 7, 1));
    EXPECT_NE(validation_indices(100, 7, 1), validation_indices(100, 7, 2));
    EXPECT_THROW(validation_indices(10, 10, 1), UserError);
}

TEST(RowOrder, StepsAreFullAndCarryOverIntoTheNextEpoch) {
    RowOrder order(counted(5), std::vector<uint32_t>(5, 3), 0, 1);
    DataPosition position;
    std::vector<uint32_t> taken;
    for (int step = 0; step < 5; ++step) {
        const auto rows = order.take(position, 2);
        ASSERT_EQ(rows.size(), 2u);
        for (const PackedRow& row : rows) taken.push_back(row.samples.at(0));
    }
    EXPECT_EQ(position, (DataPosition{2, 0}));
    EXPECT_THAT(std::vector<uint32_t>(taken.begin(), taken.begin() + 5),
                testing::UnorderedElementsAreArray(counted(5)));
    EXPECT_THAT(std::vector<uint32_t>(taken.begin() + 5, taken.end()), testing::UnorderedElementsAreArray(counted(5)));
    EXPECT_EQ(order.passes({1, 2}), 1.4);
    EXPECT_EQ(order.rows_in_passes(2.5), 13);
}

// A state of other rows: longer passes, packed otherwise.
TEST(RowOrder, RefusesAPositionBehindItsRows) {
    RowOrder order(counted(5), std::vector<uint32_t>(5, 3), 0, 1);
    DataPosition position{.epoch = 0, .row = 7};
    EXPECT_THROW(order.take(position, 2), UserError);
}

TEST(RowOrder, GoesOnFromAnyPosition) {
    const auto run = [](int64_t packed, int stop) {
        std::vector<uint32_t> lengths;
        for (uint32_t i = 0; i < 40; ++i) lengths.push_back(2 + i % 7);
        DataPosition position;
        std::vector<std::vector<uint32_t>> taken;
        auto order = std::make_unique<RowOrder>(counted(40), lengths, packed, 3);
        for (int step = 0; step < 20; ++step) {
            if (step == stop) order = std::make_unique<RowOrder>(counted(40), lengths, packed, 3);
            for (const PackedRow& row : order->take(position, 3)) taken.push_back(row.samples);
        }
        return taken;
    };
    for (const int64_t packed : {0, 16}) {
        const auto whole = run(packed, -1);
        for (const int stop : {1, 7, 19}) EXPECT_EQ(run(packed, stop), whole);
    }
}

TEST(Data, ChosenRowsAreDrawnBySeedAndDraw) {
    const std::vector<uint32_t> from = {3, 5, 8, 13, 21, 34, 55, 89};
    const auto five = chosen_indices(from, 5, 7, 1);
    EXPECT_EQ(five.size(), 5u);
    EXPECT_TRUE(std::is_sorted(five.begin(), five.end()));
    EXPECT_TRUE(std::includes(from.begin(), from.end(), five.begin(), five.end()));
    EXPECT_EQ(chosen_indices(from, 5, 7, 1), five);
    EXPECT_NE(chosen_indices(from, 5, 7, 2), five);
    EXPECT_NE(chosen_indices(from, 5, 8, 1), five);
    EXPECT_EQ(chosen_indices(from, 8, 7, 1), from);
    EXPECT_EQ(chosen_indices(from, 1000, 7, 1), from) << "there are no more";
    EXPECT_EQ(chosen_indices(from, std::nullopt, 7, 1), from);
}

TEST(RowOrder, LeavesOutWhatIsHeldOut) {
    RowOrder order({1, 3, 5}, std::vector<uint32_t>(6, 2), 0, 1);
    DataPosition position;
    std::vector<uint32_t> taken;
    for (const PackedRow& row : order.take(position, 3)) taken.push_back(row.samples.at(0));
    EXPECT_THAT(taken, testing::UnorderedElementsAre(1, 3, 5));
}

}  // namespace
}  // namespace windlass
