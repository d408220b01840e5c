// What fits is found: whatever one may fix, leaving it open finds a plan wherever fixing it does.
#include "base/units.h"
#include "plan/planner.h"
#include "tests/sanitizer.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

// Where the disk is slow for what memory and processors do, little else than what moves matters.
Machine some_laptop(double disk_bytes_per_s) {
    return completed({.name = "laptop",
                      .threads = 8,
                      .memory_bytes = 24 * kGiB,
                      .disk_bytes = int64_t{1} << 40,
                      .gemm_bf16_flops = 2e12,
                      .memory_bytes_per_s = 2e10,
                      .disk_read_bytes_per_s = 1.3 * disk_bytes_per_s,
                      .disk_write_bytes_per_s = disk_bytes_per_s});
}

// 168 million parameters in twelve layers: deep enough that estimates are not exact.
TrainedModel deep_model() {
    return model_of(R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 3072,
        "num_hidden_layers": 12, "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 4096,
        "max_position_embeddings": 2048, "tie_word_embeddings": false})");
}

std::optional<Planned> plan(std::optional<bool> recompute, int64_t ram, double disk_bytes_per_s) {
    static const Recipe recipe = make_recipe("adamw", {.state_format = StateFormat::fp32});
    static const TrainedModel model = stored_as(deep_model(), recipe);
    const Numerics numerics = numerics_of(DType::bf16, 2, 512, 1);
    const PlanRequest request{.policy = "three_tier",
                              .recompute = recompute,
                              .threads = 8,
                              .budgets = {.ram = ram, .disk = 60 * kGiB, .process = 49 * kMiB},
                              .schedules = {train_request(numerics)}};
    try {
        return make_plan(model, recipe, numerics, some_laptop(disk_bytes_per_s), request);
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::no_fit) << error.what();
        return std::nullopt;
    }
}

// The space in which values may be kept holds the one in which all are computed again: what is found there is found.
TEST(Fits, WhatFitsWithAllRecomputedFitsAsFastWithTheChoiceLeftOpen) {
    for (const double disk : {2e8, 1e9}) {
        for (const int64_t ram : {460 * kMiB, 640 * kMiB}) {
            if (is_sanitized() && (disk > 2e8 || ram > 460 * kMiB)) continue;  // the others look at the same memory
            const std::optional<Planned> fixed = plan(true, ram, disk), open = plan(std::nullopt, ram, disk);
            ASSERT_TRUE(fixed && open) << ram;
            EXPECT_LE(open->mean_seconds, 1.005 * fixed->mean_seconds) << ram << " at " << disk;
        }
    }
}

}  // namespace
}  // namespace windlass
