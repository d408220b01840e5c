// Whatever call of the runtime fails, the step ends with an error of the device, nothing is left behind, and the run
// goes on from its store in the same bits.
#include "tests/sanitizer.h"
#include "tests/simt/engine/disk_run.h"

namespace windlass {
namespace {

// A lane that knows an event to be complete does not ask for it, so a step makes a few calls more or fewer: the last of
// those that one made may not come in another, which is then whole.
void expect_recovery(const CardRun& run, int64_t failing, const std::string& wanted) {
    FaultFiles files("/image");
    bool comes = false, fails = false;
    {
        const auto engine = make_engine(files, run.golden.folder, run.options);
        run.step(*engine, 1);
        simt::emulate({.failing_call = failing});
        try {
            run.step(*engine, 2);
        } catch (const DeviceError&) {
            fails = true;
        }
        comes = simt::calls() >= failing;
        simt::emulate({});
    }
    EXPECT_EQ(fails, comes) << "call " << failing;
    EXPECT_EQ(simt::held(), 0) << "call " << failing;
    const auto engine = make_engine(files, run.golden.folder, run.options, false);
    ASSERT_EQ(engine->reopen(), run_state_of(comes ? 1 : 2)) << "call " << failing;
    if (comes) run.step(*engine, 2);
    EXPECT_TRUE(run.state(*engine, files) == wanted) << "call " << failing;
}

TEST(CudaFailure, IsNotNeededForAllToBeReleased) {
    const CardRun run(plan_over_disk());
    undisturbed(run);
    EXPECT_GT(simt::calls(), 0);
    EXPECT_EQ(simt::held(), 0);
}

// Memory that is not pinned is slower, and nothing else.
TEST(CudaFailure, ToPinIsSaidAndChangesNoBit) {
    const CardRun run(plan_over_disk());
    const std::string pinned = undisturbed(run).state;
    simt::emulate({.pinned_bytes_max = 0});
    testing::internal::CaptureStderr();
    FaultFiles files("/image");
    {
        const auto engine = make_engine(files, run.golden.folder, run.options);
        run.step(*engine, 1);
        run.step(*engine, 2);
        EXPECT_TRUE(run.state(*engine, files) == pinned);
    }
    EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("the system lets only 0 B of"));
    EXPECT_EQ(simt::held(), 0);
    simt::emulate({});
}

// A copy that nobody waits for would write where the reader's memory was.
TEST(CudaFailure, OfAReadLeavesNoCopyBehind) {
    simt::emulate({.late_ns = 1'000'000});
    const auto memory = make_device({.kind = DeviceKind::cuda})->allocate(8, MemoryKind::device);
    for (int trial = 0; trial < 8; ++trial) {
        const std::array<std::byte, 8> written = {std::byte(trial + 1)};
        memory->write(0, written);
        std::array<std::byte, 8> got = {};
        simt::emulate({.failing_call = 2});
        EXPECT_THROW(memory->read(0, got), DeviceError);
        EXPECT_EQ(got, written) << "trial " << trial;
    }
}

// Of making an engine, too: streams, events and memory that were there before the call are released.
TEST(CudaFailure, OfSetUpReleasesWhatWasThere) {
    const CardRun run(plan_over_disk());
    for (const int64_t nth : {1, 2, 3, 4, 5, 8, 13, 21}) {
        FaultFiles files("/image");
        simt::emulate({.failing_call = nth});
        EXPECT_THROW(make_engine(files, run.golden.folder, run.options), DeviceError) << "call " << nth;
        simt::emulate({});
        EXPECT_EQ(simt::held(), 0) << "call " << nth;
    }
}

TEST(CudaFailure, EndsTheStepAndTheStoreGoesOn) {
    const CardRun run(plan_over_disk());
    const Undisturbed reference = undisturbed(run);
    ASSERT_GT(reference.calls, 100);
    const int64_t trials = is_second_run() ? 4 : 12;
    for (int64_t nth = 1; nth <= reference.calls; nth += reference.calls / trials)
        expect_recovery(run, nth, reference.state);
}

TEST(SlowCudaFailure, EndsTheStepAndTheStoreGoesOn) {
    const CardRun run(plan_over_disk());
    const Undisturbed reference = undisturbed(run);
    for (int64_t nth = 1; nth <= reference.calls; ++nth) expect_recovery(run, nth, reference.state);
}

}  // namespace
}  // namespace windlass
