// Rates of kernels: what is measured for a model is what its schedules ask for.
#include "schedule/kernel_rate.h"

#include <gmock/gmock.h>

#include <set>

#include "schedule/simulate.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr const char* kLlama1b = R"({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632,
    "num_hidden_layers": 3, "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000,
    "max_position_embeddings": 2048, "tie_word_embeddings": false})";

std::vector<KernelCase> cases_of(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics,
                                 DeviceKind device = DeviceKind::cpu) {
    const OpSize size{.rows = numerics.micro_batch_size,
                      .sequence_length = numerics.sequence_lengths[0],
                      .device = device,
                      .compute = numerics.compute};
    return kernel_cases(model, recipe, {&size, 1});
}

TEST(KernelRate, EachKeyStandsOnceAndSmallEnoughToMeasure) {
    const TrainedModel model = model_of(kLlama405b);
    const std::vector<KernelCase> cases =
        cases_of(model, make_recipe("adamw", {}), numerics_of(DType::bf16, 4, 8192, 1));
    std::set<std::string> keys;
    for (const KernelCase& each : cases) {
        EXPECT_TRUE(keys.insert(each.key).second) << each.key;
        for (const Shape& weight : each.spec.weights) EXPECT_LE(weight.numel(), 4096 * 4096) << each.key;
        EXPECT_LE(each.size.tokens(), 2048) << each.key;
    }
    EXPECT_TRUE(keys.contains("linear backward bf16 4096x4096 1024"));
    EXPECT_TRUE(keys.contains("attention backward bf16 16/1x128 1x2048"));
}

// A card is full only with larger ones.
TEST(KernelRate, OfACardIsOfLargerCalls) {
    const TrainedModel model = model_of(kLlama405b);
    const OpSize size{.rows = 4, .sequence_length = 8192, .device = DeviceKind::cuda, .compute = DType::bf16};
    std::set<std::string> keys;
    for (const KernelCase& each : kernel_cases(model, make_recipe("adamw", {}), {&size, 1})) {
        keys.insert(each.key);
        EXPECT_EQ(each.size.device, DeviceKind::cuda) << each.key;
        EXPECT_LE(each.size.tokens(), 8192) << each.key;
        EXPECT_EQ(kernel_key(*each.op, each.spec, each.size, each.mode), each.key) << "a sample stands for itself";
    }
    EXPECT_TRUE(keys.contains("linear backward bf16 16384x16384 8192"));
    EXPECT_TRUE(keys.contains("attention backward bf16 16/1x128 1x8192"));
}

// 36 heads over 9 would be 18 over 4.
TEST(KernelRate, HeadsStayWholeWhereTheyCannotBeShared) {
    const TrainedModel model = model_of(R"({"model_type": "llama", "hidden_size": 2304, "intermediate_size": 4608,
        "num_hidden_layers": 1, "num_attention_heads": 36, "num_key_value_heads": 9, "vocab_size": 1024,
        "max_position_embeddings": 2048})");
    for (KernelCase& each : cases_of(model, make_recipe("adamw", {}), numerics_of(DType::bf16, 1, 512, 1))) {
        each.op->infer(each.spec);  // checks what was cut
        if (each.op->name != "attention") continue;
        EXPECT_THAT(each.key, testing::HasSubstr(" 36/9x64 "));
    }
}

TEST(KernelRate, NothingOfANarrowProductNorOfASmallModel) {
    const Recipe recipe = make_recipe("adamw", {});
    EXPECT_TRUE(cases_of(tiny_model("llama"), recipe, numerics_of(DType::bf16, 2, 512, 1)).empty());
    for (const KernelCase& each : cases_of(model_of(kLlama1b), recipe, numerics_of(DType::bf16, 1, 32, 1)))
        EXPECT_TRUE(each.op->name != "linear" && each.op->name != "cross_entropy") << each.key;
}

// With a rate for each of its kernels, the rates by shape change next to nothing: sums and the norm
// of the gradients.
class KernelRateOn : public testing::TestWithParam<DeviceKind> {};

TEST_P(KernelRateOn, WhatIsMeasuredIsWhatSchedulesAskFor) {
    const std::pair<const char*, MethodOptions> methods[] = {
        {"adamw", {}},
        {"zeroth_order", {}},
        {"forward_gradient", {}},
        {"forward_gradient", {.directions = 3, .noise = NoiseKind::low_rank}}};
    for (const auto& [method, options] : methods) {
        const Recipe recipe = make_recipe(method, options);
        const TrainedModel model = stored_as(model_of(kLlama1b), recipe);
        const Numerics numerics = numerics_of(DType::bf16, 2, 96, 1);
        Machine machine{.threads = 1, .gemm_bf16_flops = 1e9, .memory_bytes_per_s = 1e15};
        for (const KernelCase& each : cases_of(model, recipe, numerics, GetParam())) machine.kernels[each.key] = 1e9;
        const UpdateTime update = usual_update(recipe);
        const Plan plan{.policy = "memory", .device = {GetParam()}, .common = {.update = update}};
        const ScheduleSet set = lower(model, recipe, numerics, plan, {train_request(numerics)});
        const Schedule& schedule = set.schedules[0];
        const double seconds = simulate(schedule, machine).seconds;
        machine.gemm_bf16_flops = machine.attention_bf16_flops = machine.narrow_bf16_flops = 1e6;
        EXPECT_NEAR(simulate(schedule, machine).seconds, seconds, 0.05 * seconds) << method;
        machine.kernels.clear();
        EXPECT_GT(simulate(schedule, machine).seconds, 100 * seconds) << method;
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, KernelRateOn, testing::Values(DeviceKind::cpu, DeviceKind::fake),
                         [](const auto& info) { return std::string(device_kind_name(info.param)); });

}  // namespace
}  // namespace windlass
