// A device that holds everything, or some blocks: what its updates take, and what need not be moved.
#include <gmock/gmock.h>

#include <algorithm>

#include "base/units.h"
#include "plan/planner.h"
#include "schedule/machine_profiles.h"
#include "schedule/price.h"
#include "tests/sanitizer.h"
#include "tests/unit/schedule/param_tasks.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

TrainedModel llama_8b() {
    return model_of(R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
        "max_position_embeddings": 8192, "tie_word_embeddings": false})");
}

// Where all of 8 billion parameters fits on the device it stays there, and is updated at the rate of the memory that it
// is in. By hand: 20 bytes an element (both halves of the master read and written, moments of 2 bytes, the gradient) at
// 4.32 TB/s are 37 ms; the host's 250 GB/s would be 643 ms.
TEST(OnDevice, UpdatesAtItsMemorysRateWhereEverythingFits) {
    if (is_address_sanitized()) GTEST_SKIP() << "two searches of a large model";
    const Machine machine = find_machine(real_files(), "h200-server-8gen5");
    const TrainedModel model = llama_8b();
    const Recipe recipe = make_recipe("adamw", {.state_format = StateFormat::bf16});
    ASSERT_EQ(recipe.update()->bytes_per_element, 20);
    Numerics numerics = numerics_of(DType::bf16, 16, 1024, 1);
    numerics.state_format = StateFormat::bf16;
    const PlanRequest request{.policy = "in_memory",
                              .device = {.kind = DeviceKind::fake, .own_memory = true},
                              .threads = machine.threads,
                              .budgets = {.ram = 800 * kGiB, .device = 132 * kGiB},
                              .schedules = {train_request(numerics)}};
    const Planned planned = make_plan(model, recipe, numerics, machine, request);
    const Schedule& schedule = leading_schedule(planned.schedules);
    const PriceList prices(schedule, machine);
    double updates = 0, chunks = 0, tasks = 0;
    for (const Task& task : schedule.tasks) {
        const ParamTask* const update = param_of(schedule, task, is_update);
        if (update == nullptr) continue;
        updates += prices.of(task).seconds;
        chunks += static_cast<double>(update->chunks.size());
        ++tasks;
    }
    const double calls = chunks * machine.kernel_seconds + tasks * machine.task_seconds;
    EXPECT_NEAR(updates, 20.0 * static_cast<double>(model.param_count()) / 4.32e12 + calls, 1e-6);
    EXPECT_NEAR(updates - calls, 0.037, 0.001);
    // The rest are products: 6 operations for each parameter that multiplies (the table of inputs does not) and token
    // at 593 TFLOP/s, what is computed again, and kernels that wait for memory, 15 % more.
    const double multiplied = static_cast<double>(model.param_count()) - 128256.0 * 4096;
    EXPECT_NEAR(planned.step.seconds - updates, 1.15 * 6 * multiplied * 16 * 1024 / 593e12, 0.15);
}

int64_t blocks_on_device(const Plan& plan) {
    return std::ranges::count(plan.blocks, Home::device, &BlockPlan::weights);
}

// 12 GiB hold half of the 15 GiB of 8 billion weights. A step that the link bounds leaves no room for another sixteenth
// of them, which would go up the link.
TEST(OnDevice, KeepsBlocksThatItHasRoomFor) {
    const Machine machine = find_machine(real_files(), "rtx4090-desktop");
    const TrainedModel model = llama_8b();
    const Recipe recipe = make_recipe("zeroth_order", {});
    const Numerics numerics = numerics_of(DType::bf16, 1, 1024, 1);
    PlanRequest request{.device = {.kind = DeviceKind::fake, .own_memory = true},
                        .threads = machine.threads,
                        .budgets = {.ram = 50 * kGiB, .device = 12 * kGiB},
                        .schedules = {train_request(numerics)}};
    const Planned planned = make_plan(model, recipe, numerics, machine, request);
    const int64_t stay = blocks_on_device(planned.plan), all = std::ssize(planned.plan.blocks);
    EXPECT_GE(stay, all / 4);
    EXPECT_LT(stay, all);
    EXPECT_GT(planned.device_bytes, 11 * kGiB);
    EXPECT_THAT(describe_placement(planned.plan), testing::HasSubstr("on the device"));
    request.budgets.device = 4 * kGiB;
    const Planned streamed = make_plan(model, recipe, numerics, machine, request);
    EXPECT_EQ(blocks_on_device(streamed.plan), 0);
    EXPECT_LT(planned.step.demand.up_bytes, 0.8 * static_cast<double>(streamed.step.demand.up_bytes));
    EXPECT_LE(planned.mean_seconds, streamed.mean_seconds);
}

// Where the card holds some of 15 GiB of weights beside what a step takes, and the host 16 bytes for each, they stay
// there, and the host updates them.
TEST(OnDevice, KeepsTheWeightsThatItHasRoomForWhileTheHostUpdatesThem) {
    if (is_address_sanitized()) GTEST_SKIP() << "a search of a large model";
    const Machine machine = find_machine(real_files(), "rtx4090-desktop");
    const TrainedModel model = llama_8b();
    const Recipe recipe = make_recipe("adamw", {});
    const Numerics numerics = numerics_of(DType::bf16, 1, 1024, 1);
    PlanRequest request{.policy = "host_stream",
                        .device = {.kind = DeviceKind::fake, .own_memory = true},
                        .threads = machine.threads,
                        .budgets = {.ram = 200 * kGiB, .device = 23 * kGiB},
                        .schedules = {train_request(numerics)}};
    const Planned planned = make_plan(model, recipe, numerics, machine, request);
    EXPECT_GT(blocks_on_device(planned.plan), 0);
    EXPECT_EQ(std::ranges::count(planned.plan.blocks, Home::device, &BlockPlan::state), 0);
    EXPECT_THAT(describe_placement(planned.plan), testing::HasSubstr("weights on the device"));
    request.budgets.device = 6 * kGiB;
    const Planned streamed = make_plan(model, recipe, numerics, machine, request);
    EXPECT_LT(planned.mean_seconds, streamed.mean_seconds);
    // The host is what is slow there, so some of the state visits the device.
    EXPECT_GT(planned.plan.device_groups, 0);
    EXPECT_EQ(streamed.plan.device_groups, 0) << "weights that are streamed are not there to be updated";
    fmt::print("{}, {}: {:.2f} s; {}: {:.2f} s\n", describe_placement(planned.plan), describe_updates(planned.plan),
               planned.mean_seconds, describe_placement(streamed.plan), streamed.mean_seconds);
}

// With moments of one byte all of it fits a card of 141 GB. By hand: 6 operations for each of 7.5 billion parameters
// that multiply and of 16,384 tokens are 1.24 s at 593 TFLOP/s; attention, the update and what waits for memory come on
// top.
TEST(OnDevice, PolicyAutoKeepsEightBillionParametersThereWhereTheyFit) {
    if (is_address_sanitized()) GTEST_SKIP() << "a search of a large model";
    const Machine machine = find_machine(real_files(), "h200-server-4gen5");
    const TrainedModel model = llama_8b();
    const Recipe recipe = make_recipe("adamw", {.state_format = StateFormat::int8});
    Numerics numerics = numerics_of(DType::bf16, 2, 2048, 4);
    numerics.state_format = StateFormat::int8;
    const PlanRequest request{.device = {.kind = DeviceKind::fake, .own_memory = true},
                              .threads = machine.threads,
                              .budgets = {.ram = 800 * kGiB, .disk = int64_t{1} << 42, .device = 132 * kGiB},
                              .schedules = {train_request(numerics)}};
    const Planned planned = make_plan(model, recipe, numerics, machine, request);
    EXPECT_EQ(planned.plan.policy, "in_memory") << describe_placement(planned.plan);
    EXPECT_EQ(describe_placement(planned.plan), "weights in memory, state in memory, gradients in memory");
    EXPECT_GT(planned.mean_seconds, 1.24);
    EXPECT_LT(planned.mean_seconds, 1.6);
}

}  // namespace
}  // namespace windlass
