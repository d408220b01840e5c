#include "tests/unit/run/placement_fixture.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace windlass {
namespace {

constexpr int64_t kStepsOfARun = 4;
constexpr int64_t kBadStep = 3;  // tried first with a loss that overflows
constexpr double kLearningRate = 1e-2;

void try_bad_step(Engine& engine, const TestBatch& batch, int64_t step) {
    StepInput input = step_input(engine, batch, step, kLearningRate);
    input.params.head.loss_scale = std::numeric_limits<double>::infinity();
    const StepReport report = engine.train_step(train_schedule(engine, batch), input);
    EXPECT_FALSE(report.applied);
    engine.commit(step - 1, run_state_of(step - 1), report);
}

}  // namespace

Outcome run_steps(const Golden& golden, const std::array<TestBatch, 2>& batches, EngineOptions options,
                  FileSystem& files, const std::string& folder) {
    options.store_path = folder + "/store.wls";
    const auto engine = make_engine(files, golden.folder, options);
    Outcome outcome;
    for (int64_t step = 1; step <= kStepsOfARun; ++step) {
        const TestBatch& batch = batches[step % 2 == 1 ? 0 : 1];
        if (step == kBadStep) try_bad_step(*engine, batch, step);
        const StepReport report = train_on(*engine, batch, step, kLearningRate);
        EXPECT_TRUE(report.applied);
        outcome.losses.push_back(report.loss_sum);
        outcome.norms.push_back(report.grad_norm);
        outcome.clips.push_back(report.clip_scale);
    }
    outcome.state = state_bytes(*engine, files, folder + "/snapshot.wls");
    return outcome;
}

Outcome run_steps(const Golden& golden, const std::array<TestBatch, 2>& batches, const EngineOptions& options) {
    FaultFiles image("/image");
    return run_steps(golden, batches, options, image, "/image");
}

void expect_some_clipped(const Outcome& outcome) {
    ASSERT_GT(outcome.state.size(), 0u);
    const auto clipped = std::ranges::count_if(outcome.clips, [](double scale) { return scale < 1; });
    EXPECT_GT(clipped, 0) << fmt::format("{}", fmt::join(outcome.norms, " "));
    EXPECT_LT(clipped, std::ssize(outcome.clips)) << fmt::format("{}", fmt::join(outcome.norms, " "));
}

}  // namespace windlass
