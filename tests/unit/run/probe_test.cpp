// This machine, measured: every rate is there, and none contradicts another.
#include "run/probe.h"

#include "model/families.h"
#include "run/probe_parts.h"
#include "schedule/machine_text.h"
#include "tests/sanitizer.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

TEST(Probe, RoundsToFourDigits) {
    EXPECT_EQ(rounded(123456), 123500);
    EXPECT_EQ(rounded(1.23456e-6), 1.235e-6);
    EXPECT_EQ(rounded(0.99999), 1);
    EXPECT_EQ(rounded(0), 0);
}

TEST(Probe, FillsEveryRate) {
    const TempFolder folder;
    const Machine machine = probe_machine(real_files(), folder.path(), 2);
    EXPECT_EQ(machine.threads, 2);
    EXPECT_TRUE(machine.unified_memory);
    EXPECT_GT(machine.memory_bytes, 0);
    EXPECT_GT(machine.disk_bytes, 0);
    // Nothing is left to follow from the rest.
    EXPECT_EQ(completed(machine), machine);
    EXPECT_EQ(parse_machine(machine_text(machine), "probe"), machine);
    for (const DType dtype : {DType::bf16, DType::f32}) EXPECT_GT(machine.gemm_flops(dtype, GemmShape::attention), 0);
    EXPECT_LE(machine.link_both_bytes_per_s, machine.link_up_bytes_per_s + machine.link_down_bytes_per_s);
    EXPECT_LE(machine.disk_mixed_bytes_per_s, machine.disk_read_bytes_per_s + machine.disk_write_bytes_per_s);
    EXPECT_GT(machine.noise_per_s, 0);
    EXPECT_GT(machine.checksum_bytes_per_s, 0);
    EXPECT_GT(machine.one_thread_gain, 0);
    EXPECT_GT(machine.update_busy_factor, 0);
    EXPECT_LE(machine.update_busy_factor, 1);
    EXPECT_TRUE(real_files().list(folder.path()).empty());
}

// In every direction, with every kind of kernel that is measured.
TEST(Probe, MeasuresTheKernelsOfAModel) {
    HfConfig config = HfConfig::parse(R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 320,
        "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 64})",
                                      "config.json");
    const ModelSpec model = build_model(config, {});
    const OpSize size{.rows = 1, .row_length = 48, .compute = DType::f32};
    for (const NoiseKind noise : {NoiseKind::gaussian, NoiseKind::low_rank}) {
        const bool adamw = noise == NoiseKind::gaussian;
        const Recipe recipe = make_recipe(adamw ? "adamw" : "forward_gradient", {.directions = 2, .noise = noise});
        const std::vector<KernelCase> cases = kernel_cases(model, recipe, {&size, 1});
        ASSERT_GT(cases.size(), 5u);
        Machine machine;
        machine.kernels[cases[0].key] = 7;
        probe_kernels(cases, 1, machine);
        EXPECT_EQ(machine.kernels.size(), cases.size());
        for (const auto& [kernel, rate] : machine.kernels) EXPECT_GT(rate, 0) << kernel;
        EXPECT_EQ(machine.kernels[cases[0].key], 7);
    }
}

TEST(Probe, LeavesADriveOutWhereThereIsNone) {
    if (is_sanitized()) GTEST_SKIP() << "FillsEveryRate measures the same, and a drive";
    const Machine machine = probe_machine(real_files(), "", 1);
    EXPECT_EQ(machine.disk_bytes, 0);
    EXPECT_EQ(machine.disk_read_bytes_per_s, 0);
    EXPECT_EQ(machine.drives, 0);
    EXPECT_GT(machine.update_bytes_per_s, 0);
}

}  // namespace
}  // namespace windlass
