// Training on CUDA devices: placement changes no bit, and what is learnt is what the CPU learns.
#include <map>

#include "tests/sanitizer.h"
#include "tests/simt/emulated.h"
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr const char* kModels[] = {"gpt2", "llama", "llama3"};
constexpr size_t kWays = 12;  // model, type, form of gradients

// Clips some of the steps, not all; in 4 bits gradients are longer.
double norm_limit(size_t way) {
    return way / 3 == 3 ? 3.6 : way % 3 == 1 ? 3.2 : 2.9;
}

// A way to train, everything in the device's memory.
struct Reference {
    explicit Reference(size_t way)
        : golden(kModels[way % 3]),
          batches(batches_of(golden)),
          options{.plan = {.policy = "in_memory", .device = {.kind = DeviceKind::cuda, .own_memory = true}},
                  .compute = way / 3 % 2 == 0 ? DType::f32 : DType::bf16,
                  .method = {.weight_decay = 0.1, .max_grad_norm = norm_limit(way)},
                  .micro_batch_size = 1,
                  .micro_batches = 2,
                  .gradient_format = kGradientFormats[way / 3]} {
        outcome = run_steps(golden, batches, options);
        expect_some_clipped(outcome);
    }
    Golden golden;
    std::array<TestBatch, 2> batches;
    EngineOptions options;
    Outcome outcome;
};

const Reference& reference(size_t way) {
    static std::map<size_t, Reference> made;
    return made.try_emplace(way, way).first->second;
}

// Of devices with memory of their own, on this one.
std::vector<Plan> plans_of(size_t way) {
    std::vector<Plan> plans = with_mixed(all_plans(), tiny_model(kModels[way % 3]));
    std::erase_if(plans, [](const Plan& plan) { return !plan.own_memory(); });
    for (Plan& plan : plans) plan.device.kind = DeviceKind::cuda;
    return plans;
}

void expect_no_bit_changes(size_t way, size_t index, uint64_t seed) {
    const Reference& known = reference(way);
    EngineOptions options = known.options;
    options.plan = plans_of(way)[index];
    simt::emulate({.seed = seed, .late_ns = 20'000});
    EXPECT_TRUE(run_steps(known.golden, known.batches, options) == known.outcome)
        << describe(options.plan) << ", way " << way << ", seed " << seed;
    EXPECT_GT(simt::calls(), 1000) << "the device was not asked";
    simt::emulate({});
}

TEST(CudaPlacement, NeverChangesABit) {
    // Each model and form of gradients, and both types; two plans of each way share what they are compared with.
    constexpr std::array<size_t, 4> kSampledWays = {0, 4, 8, 9};
    const size_t plans = plans_of(0).size(), sample = is_sanitized() ? 2 : 8;
    for (size_t trial = 0; trial < sample; ++trial)
        expect_no_bit_changes(kSampledWays[trial / 2], (trial * plans / sample + trial) % plans, trial + 1);
}

TEST(SlowCudaPlacement, NeverChangesABit) {
    const size_t plans = plans_of(0).size();
    EXPECT_GE(plans, 60u);
    for (size_t trial = 0; trial < plans; ++trial) expect_no_bit_changes(trial % kWays, trial, trial + 1);
}

// Sums run in another order, and exponentials are another library's: losses differ by f32's rounding, which four steps
// of training may enlarge.
TEST(CudaTraining, LearnsWhatTheCpuLearns) {
    for (const size_t way : {size_t{0}, size_t{1}, size_t{2}}) {
        const Reference& known = reference(way);
        EngineOptions options = known.options;
        options.plan = memory_plan();
        const Outcome cpu = run_steps(known.golden, known.batches, options);
        for (size_t step = 0; step < cpu.losses.size(); ++step)
            EXPECT_NEAR(known.outcome.losses[step], cpu.losses[step], 1e-4 * std::abs(cpu.losses[step])) << step;
        EXPECT_NE(known.outcome.losses[0], known.outcome.losses[2]) << "nothing was learnt";
    }
}

}  // namespace
}  // namespace windlass
