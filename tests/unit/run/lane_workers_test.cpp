// Lanes have one thread each, for as long as they are wanted.
#include "run/lane_workers.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>

namespace windlass {
namespace {

constexpr int kOwn = 0;
constexpr int kLanes[] = {1, 2, 3, 4, 7};

class LaneThreads : public testing::Test {
  protected:
    void run(std::span<const int> lanes) {
        workers_.run(kOwn, lanes, [&](int lane) {
            const std::lock_guard lock(mutex_);
            threads_[lane].insert(::gettid());
            ++calls_[lane];
        });
    }
    std::mutex mutex_;
    std::map<int, std::set<pid_t>> threads_;  // numbers that the system does not give again soon
    std::map<int, int> calls_;
    LaneWorkers workers_;
};

TEST_F(LaneThreads, StayFromRunToRun) {
    constexpr int kRuns = 200;
    for (int i = 0; i < kRuns; ++i) run(kLanes);
    std::set<pid_t> all;
    for (const auto& [lane, threads] : threads_) {
        EXPECT_EQ(threads.size(), 1u) << lane;
        EXPECT_EQ(calls_[lane], kRuns) << lane;
        all.insert(threads.begin(), threads.end());
    }
    EXPECT_EQ(all.size(), std::size(kLanes) + 1);
    EXPECT_THAT(threads_[kOwn], testing::ElementsAre(::gettid()));
}

TEST_F(LaneThreads, AreOfTheLanesThatAreUsed) {
    run({});
    EXPECT_EQ(calls_.size(), 1u) << "the caller's own alone, on its thread";
    const int one[] = {2};
    run(one);
    run({});
    EXPECT_EQ(calls_[2], 1);
    EXPECT_EQ(calls_[kOwn], 3);
    EXPECT_EQ(calls_.size(), 2u);
}

// Lanes wait for each other: none may be handed out behind another.
TEST_F(LaneThreads, WorkAtOnce) {
    std::atomic<int> there{0};
    workers_.run(kOwn, kLanes, [&](int) {
        ++there;
        there.notify_all();
        for (int seen = there.load(); seen <= static_cast<int>(std::size(kLanes)); seen = there.load())
            there.wait(seen);
    });
    EXPECT_EQ(there.load(), static_cast<int>(std::size(kLanes)) + 1);
}

TEST_F(LaneThreads, RunReturnsBehindTheLastOfThem) {
    std::map<int, int> written{{kOwn, 0}, {1, 0}, {2, 0},
                               {3, 0},    {4, 0}, {7, 0}};  // without a lock: run() is what orders them
    for (int round = 1; round <= 100; ++round) {
        workers_.run(kOwn, kLanes, [&](int lane) {
            if (lane == kLanes[4]) std::this_thread::yield();
            written.at(lane) = round;
        });
        EXPECT_THAT(written, testing::Each(testing::Pair(testing::_, round)));
    }
}

}  // namespace
}  // namespace windlass
