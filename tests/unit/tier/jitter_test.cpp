#include "tier/jitter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace windlass {
namespace {

std::vector<int64_t> draw(Jitter jitter, int count) {
    std::vector<int64_t> delays;
    for (int i = 0; i < count; ++i) delays.push_back(jitter.next_ns());
    return delays;
}

TEST(Jitter, EachLaneDrawsItsOwnSequenceFromTheSeed) {
    EXPECT_EQ(draw({7, 1000, 1}, 100), draw({7, 1000, 1}, 100));
    EXPECT_NE(draw({7, 1000, 1}, 100), draw({7, 1000, 2}, 100));
    EXPECT_NE(draw({7, 1000, 1}, 100), draw({8, 1000, 1}, 100));
}

TEST(Jitter, DelaysFillTheirRangeAndManyAreNone) {
    const std::vector<int64_t> delays = draw({3, 1000}, 4000);
    EXPECT_EQ(*std::ranges::min_element(delays), 0);
    EXPECT_GT(*std::ranges::max_element(delays), 990);
    EXPECT_LE(*std::ranges::max_element(delays), 1000);
    EXPECT_NEAR(static_cast<double>(std::ranges::count(delays, 0)), 1000, 150);  // 5 standard deviations
}

TEST(Jitter, WaitsAdvanceTheSequence) {
    Jitter waited(5, 1000), drawn(5, 1000);
    for (int i = 0; i < 10; ++i) {
        wait_for(&waited);
        drawn.next_ns();
    }
    EXPECT_EQ(waited.next_ns(), drawn.next_ns());
    wait_for(nullptr);
    EXPECT_EQ(draw({5, 0}, 10), std::vector<int64_t>(10, 0));
}

}  // namespace
}  // namespace windlass
