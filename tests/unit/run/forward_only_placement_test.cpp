// Methods that go forward only: placement, evaluation and delayed lanes never change a bit of losses and weights.
#include <cmath>
#include <numbers>

#include "tests/sanitizer.h"
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

// Sanitizers look at how plans are executed, which a sample of them shows.
const size_t kPlansOfAPlacedWay = is_sanitized() ? 1 : 2;

constexpr const char* kForwardOnlyMethods[] = {"zeroth_order", "forward_gradient"};
const size_t kPlacedWayStride = is_sanitized() ? 3 : 1;

class ForwardOnlyPlacement : public testing::TestWithParam<std::tuple<const char*, const char*, DType, DType>> {};

// Some plans under each way; over models and types all of them meet.
TEST_P(ForwardOnlyPlacement, NeverChangesABit) {
    const auto& [method, name, type, compute] = GetParam();
    const TempFolder folder;
    Golden golden(name);
    golden.folder = write_model(golden, type, folder);
    const std::array<TestBatch, 2> batches = batches_of(golden);
    const std::vector<Plan> plans = forward_only_plans(DeviceKind::cpu, tiny_model(name).blocks.size());
    const size_t variant = (method == kForwardOnlyMethods[0] ? 0 : 2) + (std::string_view(name) == "gpt2" ? 0 : 1);
    const size_t number = (variant * 3 + static_cast<size_t>(type)) * 2 + (compute == DType::f32 ? 0 : 1);
    size_t trial = number * kPlacedWays / kPlacedWayStride * kPlansOfAPlacedWay;
    for (size_t way = number % kPlacedWayStride; way < kPlacedWays; way += kPlacedWayStride) {
        EngineOptions options = forward_only_way(method, compute, way);
        const Outcome reference = run_steps(golden, batches, options);
        EXPECT_NE(reference.losses[0], reference.losses[2]) << "nothing was learnt";
        for (size_t taken = 0; taken < kPlansOfAPlacedWay; ++taken) {
            const size_t index = plan_of_trial(trial++, plans.size());
            options.plan = plans[index];
            options.plan.threads = 1 + static_cast<int>(index / kPlacedWays % 3);
            options.plan.writeback_steps = 1 + static_cast<int>(index / 4 % 3);
            // Lanes overtake each other in ways that a quiet machine never shows.
            options.emulation = {.jitter_seed = index, .jitter_ns = index / kPlacedWays % 2 == 0 ? 100'000 : 0};
            const Outcome outcome = run_steps(golden, batches, options);
            EXPECT_TRUE(outcome == reference)
                << describe(options.plan) << (options.plan.blocks.empty() ? "" : ", mixed") << ", written back each "
                << options.plan.writeback_steps << " steps, way " << way << ", losses "
                << (outcome.losses == reference.losses) << ", scalars " << (outcome.norms == reference.norms)
                << ", weights " << (outcome.state == reference.state);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, ForwardOnlyPlacement,
                         testing::Combine(testing::ValuesIn(kForwardOnlyMethods), testing::Values("gpt2", "llama"),
                                          testing::Values(DType::f32, DType::bf16, DType::f16),
                                          testing::Values(DType::f32, DType::bf16)),
                         [](const auto& info) {
                             return fmt::format("{}_{}_{}_in_{}", std::get<0>(info.param), std::get<1>(info.param),
                                                dtype_name(std::get<2>(info.param)),
                                                dtype_name(std::get<3>(info.param)));
                         });

// ---- many steps, as a run takes them ----

const int64_t kManySteps = is_sanitized() ? 60 : 200;
constexpr int64_t kEvaluateEvery = 10;

double cosine_rate(int64_t step) {
    return 1e-3 * 0.5 *
           (1 + std::cos(std::numbers::pi * static_cast<double>(step - 1) / static_cast<double>(kManySteps)));
}

struct ManySteps {
    std::vector<double> losses, evaluated;
    std::string state;
};

ManySteps run_many(const Golden& golden, const EngineOptions& asked, int64_t evaluate_every) {
    FaultFiles image("/image");
    EngineOptions options = asked;
    options.store_path = "/image/store.wls";
    const auto engine = make_engine(image, golden.folder, options);
    const std::array<TestBatch, 2> batches = batches_of(golden);
    ManySteps run;
    for (int64_t step = 1; step <= kManySteps; ++step) {
        const StepReport report = train_on(*engine, batches[static_cast<size_t>(step % 2)], step, cosine_rate(step));
        EXPECT_TRUE(report.applied);
        run.losses.push_back(report.loss_sum);
        if (evaluate_every == 0 || step % evaluate_every != 0) continue;
        const StepInput input{.micro = {batches[0].rows(0, options.micro_batch_size)}};
        run.evaluated.push_back(engine->evaluate(*engine->setup().schedules.find("eval/24"), input).loss_sum);
        EXPECT_EQ(engine->durable_step(), step);
    }
    run.state = state_bytes(*engine, image, "/image/snapshot.wls");
    return run;
}

class ForwardOnlyRun : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(ForwardOnlyRun, IsTheSameWhereverItIsPlacedAndHoweverOftenItIsEvaluated) {
    const auto& [method, name] = GetParam();
    const Golden golden(name);
    EngineOptions options = forward_only_options(method, {.weight_decay = 0.1, .directions = 2});
    options.micro_batch_size = 1;
    options.micro_batches = 2;
    const ManySteps reference = run_many(golden, options, kEvaluateEvery);
    EXPECT_LT(reference.evaluated.back(), reference.evaluated.front()) << "nothing was learnt";
    const std::vector<Plan> plans = forward_only_plans(DeviceKind::cpu, tiny_model(name).blocks.size(), 2);
    for (const size_t index : {2, 20, 38}) {
        if (is_sanitized() && index != 20) continue;
        options.plan = plans[index];
        options.plan.writeback_steps = index % 3 == 0 ? 1 : static_cast<int>(index);
        const int64_t every = index % 2 == 0 ? kEvaluateEvery : 0;
        const ManySteps run = run_many(golden, options, every);
        EXPECT_TRUE(run.losses == reference.losses) << describe(options.plan);
        EXPECT_TRUE(run.state == reference.state) << describe(options.plan);
        EXPECT_TRUE(every == 0 || run.evaluated == reference.evaluated) << describe(options.plan);
    }
}

INSTANTIATE_TEST_SUITE_P(Models, ForwardOnlyRun,
                         testing::Combine(testing::ValuesIn(kForwardOnlyMethods), testing::Values("gpt2", "llama")),
                         [](const auto& info) {
                             return fmt::format("{}_{}", std::get<0>(info.param), std::get<1>(info.param));
                         });

}  // namespace
}  // namespace windlass
