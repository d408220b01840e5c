#include "train/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>

namespace windlass {
namespace {

const StepMetrics kMetrics = {.step = 60,
                              .epoch = 0.27,
                              .loss = 1.8421,
                              .lr = 9.8e-6,
                              .grad_norm = 0.71,
                              .tokens = 1200,
                              .step_seconds = 2,
                              .predicted_seconds = 1.9,
                              .mfu = 0.34,
                              .eta_seconds = 3725,
                              .ram_bytes = 3 << 20};

TEST(StepLine, SaysWhatIsMeasuredBesideWhatWasPredicted) {
    EXPECT_EQ(step_line(kMetrics, 900, ""),
              "step 60/900  epoch 0.27  loss 1.8421  lr 9.8e-06  gnorm 0.71  600 tok/s  mfu 34%  2.00 s (plan 1.90 s)  "
              "ram 3.00 MiB  eta 01:02:05");
}

TEST(StepLine, SaysWhyAClippedStepTookLonger) {
    StepMetrics metrics = kMetrics;
    metrics.clipped = metrics.redone = true;
    EXPECT_THAT(step_line(metrics, 900, ""),
                testing::HasSubstr("2.00 s (plan 1.90 s, clipped: updates done again)  ram"));
}

TEST(StepLine, NamesTheDiskAndWhatWasSkipped) {
    StepMetrics metrics = kMetrics;
    metrics.disk_read_bytes = 4'000'000'000;
    metrics.disk_write_bytes = 1'000'000'000;
    metrics.skipped = true;
    const std::string line = step_line(metrics, 900, "waits 40% for the disk (reading)");
    EXPECT_THAT(line, testing::HasSubstr("disk r2.00 w0.50 GB/s  waits 40% for the disk (reading)"));
    EXPECT_THAT(line, testing::HasSubstr("SKIPPED"));
}

TEST(Bottleneck, IsTheDiskWhereComputeWaits) {
    // compute, host, up, down, disk read, disk write
    EXPECT_EQ(bottleneck({1.0, 0, 0, 0, 0, 0}, 1.0), "");
    EXPECT_EQ(bottleneck({0.5, 0, 0, 0, 0.9, 0.3}, 1.0), "waits 50% for the disk (reading)");
    EXPECT_EQ(bottleneck({0.5, 0.1, 0.8, 0.2, 0.3, 0.3}, 1.0), "waits 50% for the link up");
    EXPECT_EQ(bottleneck({0.95, 0, 0, 0, 0.2, 0.3}, 1.0), "compute-bound (95% busy)");
}

TEST(Bar, FitsTheTerminal) {
    for (const int columns : {20, 40, 80, 200})
        EXPECT_LT(bar_line(kMetrics, 100, columns).size(), static_cast<size_t>(columns));
    EXPECT_EQ(bar_line(kMetrics, 100, 80),
              "[########################----------------]  60/100  loss 1.8421  eta 01:02:05");
    EXPECT_FALSE(bar_line(kMetrics, 0, 80).empty());
}

TEST(Terminal, APipeIsNotInteractive) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    setenv("COLUMNS", "100", 1);
    const TerminalStyle style = terminal_style(ends[1]);
    unsetenv("COLUMNS");
    EXPECT_FALSE(style.interactive);
    EXPECT_FALSE(style.color);
    EXPECT_EQ(style.columns, 100);
    close(ends[0]);
    close(ends[1]);
}

}  // namespace
}  // namespace windlass
