#include "base/activity.h"

#include <gmock/gmock.h>

#include <thread>
#include <vector>

namespace windlass {
namespace {

TEST(Activity, SaysHowMuchIsDone) {
    Activity reading("reading weights", 200);
    EXPECT_EQ(activity_text(reading, 3), "reading weights: 3 s");
    reading.done(68);
    EXPECT_EQ(activity_text(reading, 3), "reading weights: 34 %");
    reading.done_to(1000);  // more than was expected: it is not over
    EXPECT_EQ(activity_text(reading, 3), "reading weights: 99 %");
    Activity rows("tokenising a.jsonl, samples");
    rows.done(1200);
    EXPECT_EQ(activity_text(rows, 3), "tokenising a.jsonl, samples: 1200");
}

TEST(Activity, OfAStepCountsWhatAnEngineDoesWithinIt) {
    count_engine_work();
    Activity step("step 61", 10, {.counts_engine_work = true});
    std::vector<std::thread> lanes;
    for (int lane = 0; lane < 3; ++lane) lanes.emplace_back([] { count_engine_work(); });
    for (std::thread& lane : lanes) lane.join();
    step.done(5);  // not counted here
    EXPECT_EQ(activity_text(step, 0), "step 61: 30 %");
}

// Lines that a log of a run has whose steps take this long.
int64_t lines_of_steps(double step_seconds, double seconds) {
    ActivityLines lines;
    int64_t count = 0;
    for (double start = 0; start < seconds; start += step_seconds) {
        const Activity step("step", 10, {.has_own_line = true});
        for (double age = 0; age < step_seconds; age += 0.5) count += lines.is_due(step, age, start + age);
    }
    return count;
}

TEST(ActivityLines, TellAPhaseOnceThatTakesASecond) {
    ActivityLines lines;
    const Activity reading("reading weights", 10);
    EXPECT_FALSE(lines.is_due(reading, 0.9, 100.9));
    EXPECT_TRUE(lines.is_due(reading, 1.0, 101.0));
    EXPECT_FALSE(lines.is_due(reading, 1.2, 101.2));
    const Activity writing("writing", 10);
    EXPECT_FALSE(lines.is_due(writing, 0.5, 102.0));
    EXPECT_TRUE(lines.is_due(writing, 1.5, 103.0));
}

TEST(ActivityLines, TellLongStepsEverMoreSeldom) {
    EXPECT_EQ(lines_of_steps(5, 3600), 0);
    EXPECT_GE(lines_of_steps(60, 60), 1);
    EXPECT_GE(lines_of_steps(3600, 3600), 6);
    EXPECT_LE(lines_of_steps(60, 14 * 3600), 14 * 6 + 8);
    EXPECT_LE(lines_of_steps(14 * 3600, 14 * 3600), 14 * 6 + 8);
}

// A display with a terminal of its own would draw; here there is none, and a short activity says nothing.
TEST(ActivityDisplay, BeginsAndEndsWhileActivitiesDo) {
    testing::internal::CaptureStderr();
    {
        const ActivityDisplay display({});
        for (int i = 0; i < 1000; ++i) {
            Activity outer("outer");
            const Activity inner("inner", 3);
            outer.done();
        }
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace windlass
