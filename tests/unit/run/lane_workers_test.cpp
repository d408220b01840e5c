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

constexpr LaneKind kLanes[] = {LaneKind::host, LaneKind::up, LaneKind::down, LaneKind::disk_read, LaneKind::disk_write};

class LaneThreads : public testing::Test {
  protected:
    void run(std::span<const LaneKind> lanes) {
        workers_.run(lanes, [&](LaneKind lane) {
            const std::lock_guard lock(mutex_);
            threads_[lane].insert(::gettid());
            ++calls_[lane];
        });
    }
    std::mutex mutex_;
    std::map<LaneKind, std::set<pid_t>> threads_;  // numbers that the system does not give again soon
    std::map<LaneKind, int> calls_;
    LaneWorkers workers_;
};

TEST_F(LaneThreads, StayFromRunToRun) {
    constexpr int kRuns = 200;
    for (int i = 0; i < kRuns; ++i) run(kLanes);
    std::set<pid_t> all;
    for (const auto& [lane, threads] : threads_) {
        EXPECT_EQ(threads.size(), 1u) << lane_name(lane);
        EXPECT_EQ(calls_[lane], kRuns) << lane_name(lane);
        all.insert(threads.begin(), threads.end());
    }
    EXPECT_EQ(all.size(), std::size(kLanes) + 1);
    EXPECT_THAT(threads_[LaneKind::compute], testing::ElementsAre(::gettid()));
}

TEST_F(LaneThreads, AreOfTheLanesThatAreUsed) {
    run({});
    EXPECT_EQ(calls_.size(), 1u) << "compute alone, on the caller's thread";
    const LaneKind up[] = {LaneKind::up};
    run(up);
    run({});
    EXPECT_EQ(calls_[LaneKind::up], 1);
    EXPECT_EQ(calls_[LaneKind::compute], 3);
    EXPECT_EQ(calls_.size(), 2u);
}

// Lanes wait for each other: none may be handed out behind another.
TEST_F(LaneThreads, WorkAtOnce) {
    std::atomic<int> there{0};
    workers_.run(kLanes, [&](LaneKind) {
        ++there;
        there.notify_all();
        for (int seen = there.load(); seen <= static_cast<int>(std::size(kLanes)); seen = there.load())
            there.wait(seen);
    });
    EXPECT_EQ(there.load(), static_cast<int>(std::size(kLanes)) + 1);
}

TEST_F(LaneThreads, RunReturnsBehindTheLastOfThem) {
    std::array<int, kLaneKinds> written{};  // without a lock: run() is what orders them
    for (int round = 1; round <= 100; ++round) {
        workers_.run(kLanes, [&](LaneKind lane) {
            if (lane == LaneKind::disk_write) std::this_thread::yield();
            written[slot(lane)] = round;
        });
        EXPECT_THAT(written, testing::Each(round));
    }
}

}  // namespace
}  // namespace windlass
