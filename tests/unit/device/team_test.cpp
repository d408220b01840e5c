#include "device/cpu/team.h"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace windlass {
namespace {

class TeamOf : public testing::TestWithParam<int> {
  protected:
    Team team_{GetParam()};
};

TEST_P(TeamOf, VisitsEveryIndexOnce) {
    for (const int64_t count : {0, 1, 2, 7, 1000}) {
        std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
        team_.parallel_for(count, [&](int64_t index, int) { ++visits[static_cast<size_t>(index)]; });
        for (const std::atomic<int>& visit : visits) EXPECT_EQ(visit.load(), 1);
    }
}

TEST_P(TeamOf, WorkersAreNumberedAndAloneUnderTheirNumber) {
    EXPECT_EQ(team_.size(), GetParam());
    std::vector<std::atomic<int>> inside(static_cast<size_t>(GetParam()));
    std::atomic<int> wrong{0};
    team_.parallel_for(2000, [&](int64_t, int worker) {
        if (worker < 0 || worker >= GetParam()) {
            ++wrong;
            return;
        }
        std::atomic<int>& mine = inside[static_cast<size_t>(worker)];
        if (mine.fetch_add(1) != 0) ++wrong;
        mine.fetch_sub(1);
    });
    EXPECT_EQ(wrong.load(), 0);
}

TEST_P(TeamOf, AWorkerSeesRisingIndices) {
    std::vector<int64_t> last(static_cast<size_t>(GetParam()), -1);  // each written by its worker alone
    std::atomic<int> wrong{0};
    team_.parallel_for(500, [&](int64_t index, int worker) {
        int64_t& before = last[static_cast<size_t>(worker)];
        if (index <= before) ++wrong;
        before = index;
    });
    EXPECT_EQ(wrong.load(), 0);
}

// What a loop wrote is there for the next one, however short they are.
TEST_P(TeamOf, ManyTinyLoopsHandOverTheirResults) {
    std::vector<int64_t> numbers(5, 0);
    for (int loop = 0; loop < 4000; ++loop) {
        const int64_t before = numbers[static_cast<size_t>(loop % 5)];
        ASSERT_EQ(before, loop);
        team_.parallel_for(5, [&](int64_t index, int) { ++numbers[static_cast<size_t>(index)]; });
    }
    for (const int64_t number : numbers) EXPECT_EQ(number, 4000);
}

TEST_P(TeamOf, WakesUpAfterItSlept) {
    for (int nap = 0; nap < 5; ++nap) {
        std::this_thread::sleep_for(std::chrono::milliseconds(3));  // longer than workers spin
        std::atomic<int64_t> sum{0};
        team_.parallel_for(100, [&](int64_t index, int) { sum += index; });
        EXPECT_EQ(sum.load(), 4950);
    }
}

TEST_P(TeamOf, WaitsForTheSlowest) {
    std::atomic<int> done{0};
    team_.parallel_for(GetParam(), [&](int64_t, int) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));  // longer than the caller spins
        ++done;
    });
    EXPECT_EQ(done.load(), GetParam());
}

// Threads inherit the mode of whoever starts them; a team does not.
TEST_P(TeamOf, WorkersKeepSubnormals) {
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u);  // flush to zero, denormals are zero
    Team team(GetParam());
    _mm_setcsr(before);
    std::atomic<int> flushed{0};
    team.parallel_for(100, [&](int64_t, int) {
        const volatile float smallest = 0x1p-126f;
        if (smallest * 0.5f == 0.0f) ++flushed;
    });
    EXPECT_EQ(flushed.load(), 0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, TeamOf, testing::Values(1, 2, 3, 5));

TEST(Team, TwoTeamsWorkSideBySide) {
    const auto count = [](int64_t& sum) {
        Team team(2);
        for (int loop = 0; loop < 2000; ++loop) {
            std::array<int64_t, 3> parts{};
            team.parallel_for(3, [&](int64_t index, int) { parts[static_cast<size_t>(index)] = index + 1; });
            sum += std::accumulate(parts.begin(), parts.end(), int64_t{0});
        }
    };
    int64_t here = 0, there = 0;
    std::thread other([&] { count(there); });
    count(here);
    other.join();
    EXPECT_EQ(here, 12000);
    EXPECT_EQ(there, 12000);
}

TEST(Team, MayNeverBeUsed) {
    for (int i = 0; i < 50; ++i) Team team(3);
}

TEST(TeamDeathTest, HasAMember) {
    EXPECT_DEATH(Team(0), "a team of 0 threads");
}

}  // namespace
}  // namespace windlass
