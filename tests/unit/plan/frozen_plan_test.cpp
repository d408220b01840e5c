// Layers that are not trained take less of everything, and plans know it however they lie.
#include "method/param_groups.h"
#include "plan/planner.h"
#include "tests/sanitizer.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr int kLayers = 24;

TrainedModel deep_model(const std::vector<ParamGroup>& groups) {
    TrainedModel model = model_of(fmt::format(R"({{"model_type": "llama", "hidden_size": 256, "intermediate_size": 704,
        "num_hidden_layers": {}, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1000,
        "max_position_embeddings": 512, "tie_word_embeddings": false}})",
                                              kLayers));
    apply_param_groups(groups, "groups", model);
    return model;
}

const std::vector<ParamGroup> kLastTwo = {{.match = "*.layers.2[23].*"}, {.match = "*", .train = false}};

Planned plan(const TrainedModel& model, const Budgets& budgets, const std::string& policy,
             const char* method = "adamw") {
    const Recipe recipe = make_recipe(method, {});
    const Numerics numerics = numerics_of(DType::bf16, 1, 64, 1);
    const Machine machine{.gemm_bf16_flops = 1e12,
                          .gemm_f32_flops = 5e11,
                          .memory_bytes_per_s = 2e10,
                          .disk_read_bytes_per_s = 3e9,
                          .disk_write_bytes_per_s = 1e9};
    const PlanRequest request{.policy = policy, .budgets = budgets, .schedules = {train_request(numerics)}};
    return make_plan(stored_as(model, recipe), recipe, numerics, machine, request);
}

TEST(FrozenPlan, TakesLittleMoreThanTheWeights) {
    const TrainedModel all = deep_model({}), last = deep_model(kLastTwo);
    const Planned full = plan(all, {.ram = kPlenty}, "in_memory"), few = plan(last, {.ram = kPlenty}, "in_memory");
    // Masters of 4 bytes; moments and gradients of 12 more, and 12 kept where an update is speculative.
    const int64_t frozen = all.param_count() - trained_count(last);
    EXPECT_GT(full.memory_bytes - few.memory_bytes, 12 * frozen);
    EXPECT_LT(few.step.seconds, full.step.seconds / 2);
    const int64_t ram = few.memory_bytes;
    EXPECT_LE(plan(last, {.ram = ram}, "in_memory").memory_bytes, ram);
    EXPECT_THROW(plan(all, {.ram = ram}, "in_memory"), UserError);
}

// Its gradient goes through all layers; that of a frozen matrix is nobody's: of three products a token two are left.
TEST(FrozenPlan, LeavesOutTheGradientsThatNobodyComputes) {
    const std::vector<ParamGroup> frozen_matrices = {{.match = "*_proj.weight", .train = false}};
    const TrainedModel all = deep_model({}), few = deep_model(frozen_matrices);
    const Planned full = plan(all, {.ram = kPlenty}, "in_memory"), left = plan(few, {.ram = kPlenty}, "in_memory");
    constexpr int64_t kTokens = 64;
    const auto products = static_cast<double>(2 * kTokens * (all.param_count() - trained_count(few)));
    EXPECT_DOUBLE_EQ(full.step.demand.model_flops - left.step.demand.model_flops, products);
    EXPECT_LT(left.step.seconds, full.step.seconds);
}

TEST(FrozenPlan, HasNoMomentsOnDisk) {
    if (is_second_run()) GTEST_SKIP() << "two searches of a deep model";
    const Budgets budgets{.ram = kPlenty, .disk = kPlenty};
    const Planned full = plan(deep_model({}), budgets, "three_tier"),
                  few = plan(deep_model(kLastTwo), budgets, "three_tier");
    const auto store = [](const Planned& planned) {
        int64_t bytes = 0;
        for (const PlacementRow& row : planned.placement)
            if (row.tag.starts_with("working store")) bytes = row.disk_bytes;
        return bytes;
    };
    const int64_t frozen = deep_model({}).param_count() - trained_count(deep_model(kLastTwo));
    // Two versions of 12 bytes each, and one of 4; a small parameter's chunk is a whole block with moments or without.
    EXPECT_NEAR(static_cast<double>(store(full) - store(few)), 20.0 * static_cast<double>(frozen),
                0.2 * static_cast<double>(frozen));
    EXPECT_LT(few.step.demand.disk_write_bytes, full.step.demand.disk_write_bytes / 8);
}

TEST(FrozenPlan, IsFoundForLayersHereAndThere) {
    for (const char* method : {"adamw", "zeroth_order"}) {
        if (is_sanitized() && method[0] == 'a') continue;  // HasNoMomentsOnDisk searches its plans
        const TrainedModel model = deep_model(
            {{.match = "*.layers.[148].*", .train = false}, {.match = "*.layers.1[357].mlp.*", .train = false}});
        for (const char* policy : {"in_memory", "three_tier"}) {
            const Planned planned = plan(model, {.ram = kPlenty, .disk = kPlenty}, policy, method);
            const int64_t ram = planned.memory_bytes - (policy[0] == 't' ? planned.memory_bytes / 16 : 0);
            EXPECT_LE(plan(model, {.ram = ram, .disk = kPlenty}, policy, method).memory_bytes, ram) << policy;
        }
    }
}

}  // namespace
}  // namespace windlass
