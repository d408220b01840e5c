// LOMO and AdaLomo on CUDA devices: placement changes no bit, and what is learnt is what the CPU learns.
#include <map>

#include "tests/sanitizer.h"
#include "tests/simt/emulated.h"
#include "tests/unit/run/at_once_fixture.h"

namespace windlass {
namespace {

constexpr size_t kAtOnceWays = 8;  // method, masters, a second backward

EngineOptions at_once_way(size_t way) {
    EngineOptions options =
        at_once_options(way % 2 == 0 ? "lomo" : "adalomo", way / 2 % 2 == 1, way / 4 == 1 ? 4.0 : 0.0);
    options.plan = at_once({.policy = "in_memory", .device = {.kind = DeviceKind::cuda, .own_memory = true}});
    options.compute = way % 3 == 0 ? DType::f32 : DType::bf16;
    options.micro_batch_size = 1;
    options.micro_batches = 2;
    return options;
}

std::vector<Plan> at_once_plans_on_cards() {
    std::vector<Plan> plans = at_once_plans(tiny_model("gpt2"));
    std::erase_if(plans, [](const Plan& plan) { return !plan.own_memory(); });
    for (Plan& plan : plans) plan.device.kind = DeviceKind::cuda;
    return plans;
}

void expect_the_same_everywhere(size_t trials) {
    const TempFolder folder;
    Golden golden("gpt2");
    golden.folder = write_model(golden, DType::bf16, folder);
    const std::array<TestBatch, 2> batches = batches_of(golden);
    const std::vector<Plan> plans = at_once_plans_on_cards();
    std::map<size_t, Outcome> known;
    for (size_t trial = 0; trial < trials; ++trial) {
        const size_t way = 3 * trial % kAtOnceWays;
        EngineOptions options = at_once_way(way);
        if (!known.contains(way)) known[way] = run_steps(golden, batches, options);
        options.plan = plans[(trial * plans.size() / trials + trial) % plans.size()];
        simt::emulate({.seed = trial + 1, .late_ns = 20'000});
        EXPECT_TRUE(run_steps(golden, batches, options) == known[way]) << describe(options.plan) << ", way " << way;
        EXPECT_GT(simt::calls(), 500) << "the device was not asked";
        simt::emulate({});
    }
}

TEST(CudaAtOnce, NeverChangesABit) {
    expect_the_same_everywhere(is_sanitized() ? 2 : 4);
}
TEST(SlowCudaAtOnce, NeverChangesABit) {
    expect_the_same_everywhere(64);
}

// As CudaTraining has it; what is rounded randomly may round the other way where sums differ, so masters are not.
TEST(CudaAtOnce, LearnsWhatTheCpuLearns) {
    const Golden golden("gpt2");
    const std::array<TestBatch, 2> batches = batches_of(golden);
    for (const char* const method : {"lomo", "adalomo"}) {
        if (is_second_run() && method[0] == 'a') continue;  // NeverChangesABit has AdaLomo with masters
        EngineOptions options = at_once_options(method, true);
        options.plan = at_once({.policy = "in_memory", .device = {.kind = DeviceKind::cuda, .own_memory = true}});
        const Outcome cuda = run_steps(golden, batches, options);
        options.plan = at_once(memory_plan());
        const Outcome cpu = run_steps(golden, batches, options);
        for (size_t step = 0; step < cpu.losses.size(); ++step)
            EXPECT_NEAR(cuda.losses[step], cpu.losses[step], 1e-4 * std::abs(cpu.losses[step])) << method << step;
        EXPECT_NE(cuda.losses[0], cuda.losses[2]) << "nothing was learnt";
    }
}

}  // namespace
}  // namespace windlass
