// Methods that go forward only, on CUDA devices: placement changes no bit, and what is learnt is what the CPU learns.
#include "tests/sanitizer.h"
#include "tests/simt/emulated.h"
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr DType kFileTypes[] = {DType::f32, DType::bf16, DType::f16};
constexpr const char* kMethods[] = {"zeroth_order", "forward_gradient"};

// A model, what it is computed with, a method and its settings, drawn from a number.
struct Way {
    explicit Way(size_t number)
        : name(number % 2 == 0 ? "gpt2" : "llama"),
          golden(name),
          batches(batches_of(golden)),
          options(forward_only_way(kMethods[number / 2 % 2], number / 4 % 2 == 0 ? DType::f32 : DType::bf16,
                                   number % kPlacedWays)) {
        blocks = tiny_model(name).blocks.size();
        golden.folder = write_model(golden, kFileTypes[number % 3], folder);
    }
    std::vector<Plan> plans() const {
        std::vector<Plan> made = forward_only_plans(DeviceKind::cuda, blocks);
        std::erase_if(made, [](const Plan& plan) { return !plan.own_memory(); });
        return made;
    }
    Outcome run(const Plan& plan) {
        options.plan = plan;
        return run_steps(golden, batches, options);
    }

    TempFolder folder;
    const char* name;
    Golden golden;
    std::array<TestBatch, 2> batches;
    EngineOptions options;
    size_t blocks = 0;
};

// The first plan has everything in the device's memory.
void expect_one_outcome(size_t number, size_t count) {
    Way way(number);
    const std::vector<Plan> plans = way.plans();
    const Outcome known = way.run(plans[0]);
    EXPECT_NE(known.losses[0], known.losses[2]) << "nothing was learnt";
    for (size_t taken = 0; taken < count; ++taken) {
        Plan plan = plans[1 + (number * count + taken) * 7 % (plans.size() - 1)];
        plan.writeback_steps = 1 + static_cast<int>(taken % 3);
        simt::emulate({.seed = number + taken, .late_ns = 20'000});
        EXPECT_TRUE(way.run(plan) == known) << describe(plan) << ", way " << number;
        simt::emulate({});
    }
}

TEST(CudaForwardOnly, PlacementNeverChangesABit) {
    for (const size_t number : is_sanitized() ? std::vector<size_t>{10} : std::vector<size_t>{1, 2, 7, 8})
        expect_one_outcome(number, 1);
}

TEST(SlowCudaForwardOnly, PlacementNeverChangesABit) {
    for (size_t number = 0; number < 24; ++number) expect_one_outcome(number, 4);
}

// Losses of the first step differ by the order of sums alone; what is found along a direction is a difference of such
// losses, and later steps move by it.
TEST(CudaForwardOnly, LearnsWhatTheCpuLearns) {
    for (const size_t number : is_sanitized() ? std::vector<size_t>{3} : std::vector<size_t>{0, 3}) {
        Way way(number);
        const Outcome cuda = way.run(way.plans()[0]), cpu = way.run(forward_only_memory_plan());
        for (size_t step = 0; step < cpu.losses.size(); ++step)
            EXPECT_NEAR(cuda.losses[step], cpu.losses[step], (step == 0 ? 1e-5 : 1e-2) * std::abs(cpu.losses[step]))
                << "way " << number << ", step " << step;
    }
}

}  // namespace
}  // namespace windlass
