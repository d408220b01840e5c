// Placement never changes a bit: every plan gives the losses, weights and moments of everything in memory.
#include <cmath>
#include <cstring>

#include "schedule/layout.h"
#include "tests/sanitizer.h"
#include "tests/unit/run/placement_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

// Each model and type takes a part of the plans, neighbours in this list different ones, so that all are taken.
// Sanitizers look at how plans are executed, which fewer show.
const size_t kTrainedStride = is_sanitized() ? 11 : 2;

// Clips some of the steps, not all.
double norm_limit(std::string_view model) {
    return model == "llama" ? 3.2 : 2.9;
}

class Placement : public testing::TestWithParam<std::tuple<const char*, DType, int, StateFormat>> {};

TEST_P(Placement, NeverChangesABit) {
    const auto& [name, compute, micro_batches, format] = GetParam();
    const Golden golden(name);
    EngineOptions options{.compute = compute,
                          .method = {.weight_decay = 0.1, .max_grad_norm = norm_limit(name), .state_format = format},
                          .micro_batch_size = 2 / micro_batches,
                          .micro_batches = micro_batches};
    const std::array<TestBatch, 2> batches = {TestBatch(golden.ids("ids"), golden.ids("targets"), 2),
                                              TestBatch(golden.ids("ids_b"), golden.ids("targets_b"), 2)};
    const Outcome reference = run_steps(golden, batches, options);
    expect_some_clipped(reference);
    const std::vector<Plan> plans = with_mixed(all_plans(), tiny_model(name));
    const auto first = static_cast<size_t>(micro_batches + static_cast<int>(format)) % kTrainedStride;
    for (size_t index = first; index < plans.size(); index += kTrainedStride) {
        const Plan& plan = plans[index];
        options.plan = plan;
        // Lanes overtake each other in ways that a quiet machine never shows.
        options.emulation = {.jitter_seed = index, .jitter_ns = index % 3 == 0 ? 200'000 : 0};
        // A real drive for some: a sync of it takes longer than a step.
        const bool on_drive = plan.store && plan.threads == 2;
        const TempFolder folder;
        const Outcome outcome = on_drive ? run_steps(golden, batches, options, real_files(), folder.path())
                                         : run_steps(golden, batches, options);
        EXPECT_TRUE(outcome == reference)
            << describe(plan) << (plan.blocks.empty() ? "" : ", mixed") << ", losses "
            << (outcome.losses == reference.losses) << ", norms " << (outcome.norms == reference.norms);
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Placement,
                         testing::Combine(testing::Values("gpt2", "llama", "llama3"),
                                          testing::Values(DType::f32, DType::bf16), testing::Values(1, 2),
                                          testing::Values(StateFormat::fp32)));
INSTANTIATE_TEST_SUITE_P(Formats, Placement,
                         testing::Combine(testing::Values("gpt2", "llama"), testing::Values(DType::f32),
                                          testing::Values(2), testing::Values(StateFormat::bf16, StateFormat::int8)));

// Behind a first step whose gradients are not clipped AdamW's first moments are its gradients, but for a factor. Of
// split masters in fp32, a chunk of n elements is 2 n bytes of weights, 2 n of low halves, 4 n of them, and 4 n of the
// second moments; each of these parameters is one chunk.
std::vector<float> first_moments(Engine& engine) {
    const TempFolder folder;
    const std::string state = state_bytes(engine, real_files(), folder / "state");
    const TrainedModel& model = engine.setup().model;
    std::vector<float> moments;
    size_t at = 0;
    for (const int param : store_order(model)) {
        const auto count = static_cast<size_t>(model.params[static_cast<size_t>(param)].numel());
        WINDLASS_CHECK(at + 12 * count <= state.size(), "the snapshot ends inside parameter {}", param);
        moments.resize(moments.size() + count);
        std::memcpy(&moments[moments.size() - count], &state[at + 4 * count], 4 * count);
        at += 12 * count;
    }
    EXPECT_EQ(at, state.size());
    return moments;
}

double length(const std::vector<float>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum);
}

// Rows split into one micro-batch or two: the same sums in another order. Of the gradients the difference is looked at,
// parameter by parameter, not of their norms.
TEST(MicroBatches, SplitChangesOnlyRounding) {
    for (const DType compute : {DType::f32, DType::bf16}) {
        const Golden golden("llama3");
        const TestBatch batch(golden.ids("ids"), golden.ids("targets"), 2);
        std::vector<double> losses;
        std::vector<std::vector<float>> gradients;
        for (const int micro_batches : {1, 2}) {
            const EngineOptions options{.compute = compute,
                                        .method = {.max_grad_norm = 1e30},
                                        .micro_batch_size = 2 / micro_batches,
                                        .micro_batches = micro_batches};
            const auto engine = make_engine(real_files(), golden.folder, options);
            losses.push_back(train_on(*engine, batch, 1, 1e-3).loss_sum);
            gradients.push_back(first_moments(*engine));
        }
        EXPECT_NEAR(losses[0], losses[1], 1e-6 * losses[0]);
        std::vector<float> difference = gradients[0];
        ASSERT_EQ(difference.size(), gradients[1].size());
        for (size_t i = 0; i < difference.size(); ++i) difference[i] -= gradients[1][i];
        EXPECT_GT(length(gradients[0]), 0);
        EXPECT_GT(length(difference), 0) << "nothing was summed otherwise";
        EXPECT_LE(length(difference), 1e-6 * length(gradients[0])) << dtype_name(compute);
        fmt::print("{}: |dg| / |g| = {:.2e}\n", dtype_name(compute), length(difference) / length(gradients[0]));
    }
}

}  // namespace
}  // namespace windlass
