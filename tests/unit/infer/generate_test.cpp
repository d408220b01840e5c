#include "infer/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

namespace windlass {
namespace {

using testing::ElementsAre;

TEST(Sampling, GreedyTakesTheLowestOfEquals) {
    Random random(1, RandomStream::sampling);
    EXPECT_EQ(sample_token(std::vector<float>{1, 3, 3, 2}, 4, {}, random), 1);
    EXPECT_EQ(sample_token(std::vector<float>{1, 3, 9, 9}, 2, {}, random), 1)
        << "ids from the vocabulary's end on are padding";
}

std::map<int32_t, int> draw(const std::vector<float>& logits, const SamplingOptions& options, int count) {
    Random random(7, RandomStream::sampling);
    std::map<int32_t, int> drawn;
    for (int i = 0; i < count; ++i) ++drawn[sample_token(logits, std::ssize(logits), options, random)];
    return drawn;
}

TEST(Sampling, FollowsTheDistribution) {
    const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
    const auto drawn = draw(logits, {.temperature = 1}, 10000);
    EXPECT_NEAR(drawn.at(0), 5000, 250);  // five standard deviations
    EXPECT_NEAR(drawn.at(1), 3000, 230);
    EXPECT_NEAR(drawn.at(2), 2000, 200);
}

TEST(Sampling, TopKAndTopPCutTheTail) {
    const std::vector<float> logits = {std::log(0.2f), std::log(0.5f), std::log(0.3f)};
    EXPECT_THAT(draw(logits, {.temperature = 1, .top_k = 1}, 100), ElementsAre(testing::Pair(1, 100)));
    EXPECT_EQ(draw(logits, {.temperature = 1, .top_k = 2}, 1000).count(0), 0u);
    EXPECT_EQ(draw(logits, {.temperature = 1, .top_p = 0.4}, 1000).size(), 1u);
    EXPECT_EQ(draw(logits, {.temperature = 1, .top_p = 0.7}, 1000).size(), 2u);
    EXPECT_EQ(draw(logits, {.temperature = 1, .top_p = 1}, 1000).size(), 3u);
    EXPECT_EQ(draw(logits, {.temperature = 1, .top_p = 0}, 10).size(), 1u);
}

TEST(Prefill, TakesWholeChunksAndTheRest) {
    EXPECT_THAT(prefill_chunks(1), ElementsAre(1));
    EXPECT_THAT(prefill_chunks(150), ElementsAre(150));
    EXPECT_THAT(prefill_chunks(256), ElementsAre(256));
    EXPECT_THAT(prefill_chunks(600), ElementsAre(256, 256, 88));
    for (int64_t tokens = 1; tokens < 600; ++tokens) {
        const auto chunks = prefill_chunks(tokens);
        EXPECT_EQ(std::accumulate(chunks.begin(), chunks.end(), int64_t{0}), tokens);
    }
}

TEST(Prefill, AsksForTwoSchedulesAtMost) {
    const auto lengths = [](int64_t prompt_tokens) {
        std::vector<int64_t> lengths;
        for (const ScheduleRequest& request : decode_requests(prompt_tokens, 1000)) {
            EXPECT_EQ(request.cache_capacity, 1000);
            lengths.push_back(request.sequence_length);
        }
        return lengths;
    };
    EXPECT_THAT(lengths(1), ElementsAre(1));
    EXPECT_THAT(lengths(150), ElementsAre(150, 1));
    EXPECT_THAT(lengths(600), ElementsAre(256, 1));
}

}  // namespace
}  // namespace windlass
