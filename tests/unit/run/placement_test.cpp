// Placement never changes a bit: every plan gives the losses, weights and moments of everything in memory.
#include "base/file_fault.h"
#include "tests/unit/run/engine_fixture.h"

namespace windlass {
namespace {

struct Outcome {
    std::vector<double> losses, norms;
    std::string state;
    bool operator==(const Outcome&) const = default;
};

constexpr int64_t kSteps = 4;

Outcome run(const Golden& golden, EngineOptions options, FileSystem& files, const std::string& folder) {
    options.store_path = folder + "/store.wls";
    const auto engine = make_engine(files, golden.folder, options);
    const TestBatch a(golden.ids("ids"), golden.ids("targets"), 2);
    const TestBatch b(golden.ids("ids_b"), golden.ids("targets_b"), 2);
    Outcome outcome;
    for (int64_t step = 1; step <= kSteps; ++step) {
        const StepReport report = train_on(*engine, step % 2 == 1 ? a : b, step, 1e-2);
        EXPECT_TRUE(report.applied);
        outcome.losses.push_back(report.loss_sum);
        outcome.norms.push_back(report.grad_norm);
    }
    outcome.state = state_bytes(*engine, files, folder + "/snapshot.wls");
    return outcome;
}

std::vector<Plan> all_plans() {
    std::vector<Plan> plans;
    for (const int threads : {1, 2, 3}) {
        for (const bool recompute : {false, true}) {
            for (const MicroOrder order : {MicroOrder::vertical, MicroOrder::horizontal})
                plans.push_back({.policy = "test", .threads = threads, .order = order, .recompute = recompute});
            for (const Home weights : {Home::memory, Home::disk}) {
                for (const Home gradients : {Home::memory, Home::disk}) {
                    plans.push_back({.policy = "test",
                                     .threads = threads,
                                     .weights = weights,
                                     .state = Home::disk,
                                     .gradients = gradients,
                                     .recompute = recompute,
                                     .read_ahead = threads - 1});
                }
            }
        }
    }
    return plans;
}

class Placement : public testing::TestWithParam<std::tuple<const char*, DType, int>> {};

TEST_P(Placement, NeverChangesABit) {
    const auto& [name, compute, micro_count] = GetParam();
    const Golden golden(name);
    EngineOptions options{.compute = compute,
                          .method = {.weight_decay = 0.1, .max_grad_norm = 1.0},
                          .micro_rows = 2 / micro_count,
                          .micro_count = micro_count};
    FaultFiles none("/image");
    const Outcome reference = run(golden, options, none, "/image");
    ASSERT_GT(reference.state.size(), 0u);
    for (const Plan& plan : all_plans()) {
        options.plan = plan;
        // A real drive for some: a sync of it takes longer than a step.
        const bool on_drive = plan.threads == 2 && !plan.recompute;
        FaultFiles image("/image");
        const TempFolder folder;
        const Outcome outcome =
            on_drive ? run(golden, options, real_files(), folder.path()) : run(golden, options, image, "/image");
        EXPECT_TRUE(outcome == reference)
            << "weights " << home_name(plan.weights) << ", state " << home_name(plan.state) << ", gradients "
            << home_name(plan.gradients) << ", recompute " << plan.recompute << ", threads " << plan.threads
            << ", losses " << (outcome.losses == reference.losses) << ", norms " << (outcome.norms == reference.norms);
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Placement,
                         testing::Combine(testing::Values("gpt2", "llama", "llama3"),
                                          testing::Values(DType::f32, DType::bf16), testing::Values(1, 2)));

// Rows split into one micro-batch or two: the same sums in another order.
TEST(MicroBatches, SplitChangesOnlyRounding) {
    for (const auto& [compute, tolerance] : {std::pair{DType::f32, 1e-6}, std::pair{DType::bf16, 1e-3}}) {
        const Golden golden("llama3");
        const TestBatch batch(golden.ids("ids"), golden.ids("targets"), 2);
        std::vector<StepReport> reports;
        for (const int micro_count : {1, 2}) {
            EngineOptions options{.compute = compute, .micro_rows = 2 / micro_count, .micro_count = micro_count};
            reports.push_back(train_on(*make_engine(real_files(), golden.folder, options), batch, 1, 1e-3));
        }
        EXPECT_NEAR(reports[0].loss_sum, reports[1].loss_sum, tolerance * reports[0].loss_sum);
        EXPECT_NEAR(reports[0].grad_norm, reports[1].grad_norm, tolerance * reports[0].grad_norm);
    }
}

}  // namespace
}  // namespace windlass
