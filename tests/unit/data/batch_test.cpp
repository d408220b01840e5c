#include "data/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"

namespace windlass {
namespace {

using testing::ElementsAre;

Sample sample(std::vector<int32_t> ids, std::vector<uint8_t> trained) {
    return {std::move(ids), std::move(trained)};
}

template <typename T>
std::vector<T> numbers(const T* data, int64_t count) {
    return std::vector<T>(data, data + count);
}

TEST(StepBatch, ShiftsTargetsInsideDocumentsAndPadsWithADocumentOfItsOwn) {
    const std::vector<RowSamples> rows = {{sample({1, 2, 3}, {0, 1, 1}), sample({4, 5}, {1, 1})}};
    const StepBatch batch(rows, 1, 1, 8, 9);
    const Batch& micro = batch.micro()[0];
    EXPECT_THAT(numbers(micro.tokens, 8), ElementsAre(1, 2, 3, 4, 5, 9, 9, 9));
    EXPECT_THAT(numbers(micro.targets, 8), ElementsAre(2, 3, -100, 5, -100, -100, -100, -100));
    EXPECT_THAT(numbers(micro.positions, 8), ElementsAre(0, 1, 2, 0, 1, 0, 1, 2));
    EXPECT_THAT(numbers(micro.doc_start, 8), ElementsAre(0, 0, 0, 3, 3, 5, 5, 5));
    EXPECT_EQ(batch.tokens(), 5);
    EXPECT_EQ(batch.target_tokens(), 3);
}

TEST(StepBatch, PromptTokensAreNoTargets) {
    const StepBatch batch(std::vector<RowSamples>{{sample({7, 8, 9, 10}, {0, 0, 1, 0})}}, 1, 1, 4, 0);
    EXPECT_THAT(numbers(batch.micro()[0].targets, 4), ElementsAre(-100, 9, -100, -100));
    EXPECT_EQ(batch.target_tokens(), 1);
}

TEST(StepBatch, MicroBatchesSplitTheSameRows) {
    Random random(1, RandomStream::test);
    std::vector<RowSamples> rows;
    for (int row = 0; row < 8; ++row) {
        Sample made;
        for (uint64_t i = 0; i < 2 + random.below(14); ++i) {
            made.ids.push_back(static_cast<int32_t>(random.below(100)));
            made.trained.push_back(random.below(2) != 0);
        }
        rows.push_back({made});
    }
    const auto all = [&](int64_t micro_batch_size, int64_t micro_batches, auto member) {
        const StepBatch batch(rows, micro_batch_size, micro_batches, 16, 0);
        std::vector<int32_t> joined;
        for (const Batch& micro : batch.micro()) {
            const auto part = numbers(micro.*member, micro.count());
            joined.insert(joined.end(), part.begin(), part.end());
        }
        return joined;
    };
    for (const auto member : {&Batch::tokens, &Batch::targets, &Batch::positions, &Batch::doc_start}) {
        EXPECT_EQ(all(8, 1, member), all(2, 4, member));
        EXPECT_EQ(all(8, 1, member), all(1, 8, member));
    }
}

TEST(StepBatch, RowsThatAreMissingAreAllPadding) {
    const StepBatch batch(std::vector<RowSamples>{{sample({1, 2}, {1, 1})}}, 2, 2, 4, 0);
    ASSERT_EQ(batch.micro().size(), 2u);
    EXPECT_THAT(numbers(batch.micro()[1].targets, 8), testing::Each(kIgnored));
    EXPECT_THAT(numbers(batch.micro()[1].positions, 8), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
    EXPECT_EQ(batch.tokens(), 2);
}

TEST(RowLengths, OneLengthForEqualRows) {
    EXPECT_THAT(choose_row_lengths(std::vector<uint32_t>(100, 60), 4, 64), ElementsAre(64));
    EXPECT_THAT(choose_row_lengths(std::vector<uint32_t>(100, 60), 4, 60), ElementsAre(60));
    EXPECT_THAT(choose_row_lengths(std::vector<uint32_t>{1}, 4, 1024), ElementsAre(16));
}

TEST(RowLengths, FollowTheHistogram) {
    std::vector<uint32_t> lengths(990, 30);
    lengths.insert(lengths.end(), 10, 1000);
    EXPECT_THAT(choose_row_lengths(lengths, 1, 1024), ElementsAre(32, 1008));
    // Nearly every step of 1024 rows holds a long one: a second length would never be used.
    EXPECT_THAT(choose_row_lengths(lengths, 1024, 1024), ElementsAre(1008));
}

TEST(RowLengths, AreAtMostFourAndRisingAndHoldTheLongest) {
    Random random(2, RandomStream::test);
    for (int trial = 0; trial < 50; ++trial) {
        std::vector<uint32_t> lengths;
        for (uint64_t i = 0; i < 1 + random.below(500); ++i)
            lengths.push_back(static_cast<uint32_t>(1 + random.below(700)));
        const std::vector<int64_t> chosen = choose_row_lengths(lengths, 1 + static_cast<int64_t>(random.below(8)), 700);
        ASSERT_FALSE(chosen.empty());
        EXPECT_LE(chosen.size(), 4u);
        EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
        EXPECT_GE(chosen.back(), *std::max_element(lengths.begin(), lengths.end()));
        EXPECT_LE(chosen.back(), 700);
    }
}

TEST(RowLengths, AStepTakesTheFirstThatHoldsIt) {
    const std::vector<int64_t> lengths = {4, 8};
    const RowSamples four = {sample({1, 2}, {1, 1}), sample({3, 4}, {1, 1})};
    const RowSamples five = {sample({1, 2, 3, 4, 5}, {1, 1, 1, 1, 1})};
    EXPECT_EQ(bucket_for(lengths, std::vector<RowSamples>{four}), 4);
    EXPECT_EQ(bucket_for(lengths, std::vector<RowSamples>{four, five}), 8);
}

}  // namespace
}  // namespace windlass
