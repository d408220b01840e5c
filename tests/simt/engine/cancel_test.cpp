// A step that is asked to stop at any call of the runtime, and so at each of its tasks, is applied whole or not at all;
// nothing is left behind, and the run goes on in the same bits.
#include "base/error.h"
#include "tests/sanitizer.h"
#include "tests/simt/engine/disk_run.h"

namespace windlass {
namespace {

// False: it was interrupted.
bool step_asked_to_stop(const CardRun& run, Engine& engine, int64_t number, int64_t nth) {
    simt::emulate({.noted_call = nth, .note = [&engine] { engine.request_stop(); }});
    bool is_whole = true;
    try {
        run.step(engine, number);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::interrupted) << "call " << nth << ": " << error.what();
        is_whole = false;
    }
    simt::emulate({});
    return is_whole;
}

// With a store the next process goes on from it.
bool expect_resumed(const CardRun& run, int64_t nth, const std::string& wanted) {
    FaultFiles files("/image");
    bool is_whole = false;
    {
        const auto engine = make_engine(files, run.golden.folder, run.options);
        run.step(*engine, 1);
        is_whole = step_asked_to_stop(run, *engine, 2, nth);
    }
    EXPECT_EQ(simt::held(), 0) << "call " << nth;
    const auto engine = make_engine(files, run.golden.folder, run.options, false);
    EXPECT_EQ(engine->reopen(), run_state_of(is_whole ? 2 : 1)) << "call " << nth;
    if (!is_whole) run.step(*engine, 2);
    EXPECT_TRUE(run.state(*engine, files) == wanted) << "call " << nth;
    return is_whole;
}

// Without one the engine itself has the state of the step before, as in a run that saves a checkpoint and ends.
bool expect_kept(const CardRun& run, int64_t nth, const std::string& before, const std::string& after) {
    FaultFiles files("/image");
    bool is_whole = false;
    {
        const auto engine = make_engine(files, run.golden.folder, run.options);
        run.step(*engine, 1);
        is_whole = step_asked_to_stop(run, *engine, 2, nth);
        EXPECT_TRUE(run.state(*engine, files) == (is_whole ? after : before)) << "call " << nth;
    }
    EXPECT_EQ(simt::held(), 0) << "call " << nth;
    return is_whole;
}

// `every`: of so many calls one is tried.
void expect_whole_or_nothing_over_disk(int64_t every) {
    const CardRun run(plan_over_disk());
    const Undisturbed reference = undisturbed(run);
    ASSERT_GT(reference.calls, 100);
    int interrupted = 0;
    for (int64_t nth = 1; nth <= reference.calls; nth += every)
        interrupted += expect_resumed(run, nth, reference.state) ? 0 : 1;
    EXPECT_GT(interrupted, 0);
}

void expect_whole_or_nothing_in_memory(UpdateTime update, int64_t every) {
    const CardRun run({.policy = "in_memory", .device = kEmulatedCard, .common = {.update = update}});
    const Undisturbed reference = undisturbed(run);
    std::string before;
    {
        FaultFiles files("/image");
        const auto engine = make_engine(files, run.golden.folder, run.options);
        run.step(*engine, 1);
        before = run.state(*engine, files);
    }
    int whole = 0, trials = 0;
    for (int64_t nth = 1; nth <= reference.calls; nth += every, ++trials)
        whole += expect_kept(run, nth, before, reference.state) ? 1 : 0;
    EXPECT_LT(whole, trials);
}

TEST(CudaCancel, AppliesTheWholeStepOrNothing) {
    const int64_t sparsely = is_second_run() ? 3 : 1;
    expect_whole_or_nothing_over_disk(/*every=*/97 * sparsely);
    expect_whole_or_nothing_in_memory(UpdateTime::after_backward, /*every=*/23 * sparsely);
}

TEST(SlowCudaCancel, AppliesTheWholeStepOrNothingWheneverItIsAsked) {
    expect_whole_or_nothing_over_disk(1);
    for (const UpdateTime update : {UpdateTime::after_backward, UpdateTime::in_backward})
        expect_whole_or_nothing_in_memory(update, 1);
}

}  // namespace
}  // namespace windlass
