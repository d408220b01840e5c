// Waits: what is told apart by lane is kept by lane, however much of it there is.
#include "schedule/waits.h"

#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"

namespace windlass {
namespace {

TEST(Waits, KeepTheLargestCountOfEachLane) {
    Waits waits = {{2, 5}, {0, 1}};
    waits.raise(2, 3);
    waits.raise(0, 4);
    waits.raise(1, 0);  // for nothing
    EXPECT_EQ(waits.of(0), 4);
    EXPECT_EQ(waits.of(1), 0);
    EXPECT_EQ(waits.of(2), 5);
    EXPECT_EQ(waits, (Waits{{0, 4}, {2, 5}}));
    EXPECT_FALSE(waits == (Waits{{0, 4}}));
    waits.drop(0);
    EXPECT_EQ(waits, (Waits{{2, 5}}));
}

// Beyond what has room inside, and back again.
TEST(Waits, AreAMap) {
    Random random(3, RandomStream::test);
    Waits waits;
    std::map<int, int> expected;
    for (int i = 0; i < 2000; ++i) {
        const int lane = static_cast<int>(random.below(9)), count = static_cast<int>(random.below(50)) + 1;
        if (random.below(3) == 0) {
            waits.drop(lane);
            expected.erase(lane);
        } else {
            waits.raise(lane, count);
            expected[lane] = std::max(expected[lane], count);
        }
        std::map<int, int> found;
        for (const Wait& wait : waits) found[wait.lane] = wait.count;
        ASSERT_EQ(found, expected) << i;
        ASSERT_EQ(std::distance(waits.begin(), waits.end()), std::ssize(expected)) << i;
        ASSERT_TRUE(std::is_sorted(waits.begin(), waits.end(), [](Wait a, Wait b) { return a.lane < b.lane; }));
        Waits copy = waits;
        copy.raise(waits);
        ASSERT_EQ(copy, waits);
    }
}

}  // namespace
}  // namespace windlass
