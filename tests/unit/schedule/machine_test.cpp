// What follows about a machine from what is known.
#include "schedule/machine.h"

namespace windlass {
namespace {

TEST(Machine, GivesTheRateOfAShape) {
    const Machine machine{.gemm_bf16_flops = 8,
                          .gemm_f32_flops = 4,
                          .narrow_bf16_flops = 2,
                          .narrow_f32_flops = 1,
                          .attention_f32_flops = 3};
    EXPECT_EQ(machine.gemm_flops(DType::bf16), 8);
    EXPECT_EQ(machine.gemm_flops(DType::f32), 4);
    EXPECT_EQ(machine.gemm_flops(DType::bf16, GemmShape::narrow), 2);
    EXPECT_EQ(machine.gemm_flops(DType::f32, GemmShape::narrow), 1);
    EXPECT_EQ(machine.gemm_flops(DType::f32, GemmShape::attention), 3);
    EXPECT_EQ(machine.gemm_flops(DType::bf16, GemmShape::attention), 8);  // not known: that of large products
}

TEST(MachineDefaults, BoundNarrowProductsByReadingTheirWeights) {
    const Machine machine = completed({.gemm_bf16_flops = 1e12, .memory_bytes_per_s = 1e10});
    EXPECT_EQ(machine.gemm_f32_flops, 5e11);
    EXPECT_EQ(machine.narrow_bf16_flops, 32 * 1e10);  // two operations for each of 32 rows on two bytes
    EXPECT_EQ(machine.narrow_f32_flops, 16 * 1e10);
    EXPECT_EQ(machine.attention_bf16_flops, 5e11);
    EXPECT_EQ(completed({.gemm_f32_flops = 1e9, .memory_bytes_per_s = 1e10}).narrow_f32_flops, 1e9);
}

TEST(MachineDefaults, CopyInsideUnifiedMemory) {
    const Machine machine = completed({.memory_bytes_per_s = 40});
    EXPECT_EQ(machine.device_memory_bytes_per_s, 40);
    EXPECT_EQ(machine.link_up_bytes_per_s, 20);
    EXPECT_EQ(machine.link_down_bytes_per_s, 20);
    EXPECT_EQ(machine.link_both_bytes_per_s, 20);
    EXPECT_EQ(machine.update_bytes_per_s, 40);
    EXPECT_EQ(machine.update_busy_factor, 0.5);
}

TEST(MachineDefaults, LetALinkGoBothWaysAtOnce) {
    const Machine machine = completed({.unified_memory = false, .memory_bytes_per_s = 200, .link_up_bytes_per_s = 25});
    EXPECT_EQ(machine.link_down_bytes_per_s, 25);
    EXPECT_EQ(machine.link_both_bytes_per_s, 50);
    EXPECT_EQ(machine.update_busy_factor, 0.75);  // 50 of 200 are the link's
    EXPECT_EQ(machine.device_memory_bytes_per_s, 0);
}

TEST(MachineDefaults, LetADriveReadAndWriteInTurns) {
    const Machine machine = completed({.disk_read_bytes_per_s = 6, .disk_write_bytes_per_s = 3});
    EXPECT_EQ(machine.disk_mixed_bytes_per_s, 4);  // 2 bytes read and 2 written take 1/3 s and 2/3 s
    EXPECT_EQ(machine.drives, 1);
    const Machine without = completed({.memory_bytes_per_s = 1});
    EXPECT_EQ(without.disk_mixed_bytes_per_s, 0);
    EXPECT_EQ(without.drives, 0);
}

TEST(MachineDefaults, LeaveWhatIsKnown) {
    const Machine machine{.gemm_bf16_flops = 5,
                          .gemm_f32_flops = 6,
                          .narrow_bf16_flops = 1,
                          .narrow_f32_flops = 2,
                          .attention_bf16_flops = 3,
                          .attention_f32_flops = 4,
                          .one_thread_gain = 1.5,
                          .memory_bytes_per_s = 7,
                          .device_memory_bytes_per_s = 8,
                          .link_up_bytes_per_s = 9,
                          .link_down_bytes_per_s = 10,
                          .link_both_bytes_per_s = 11,
                          .disk_read_bytes_per_s = 12,
                          .disk_write_bytes_per_s = 13,
                          .disk_mixed_bytes_per_s = 14,
                          .update_bytes_per_s = 15,
                          .update_busy_factor = 0.9,
                          .task_seconds = 0.1,
                          .kernel_seconds = 0.2,
                          .drives = 3};
    EXPECT_EQ(completed(machine), machine);
}

TEST(MachinePrice, IsTheRentOrThePurchaseOverItsYears) {
    EXPECT_EQ(hourly_price({}), 0);
    EXPECT_EQ(hourly_price({.price_per_hour = 2}), 2);
    EXPECT_DOUBLE_EQ(hourly_price({.purchase_price = 8766, .service_years = 2}), 0.5);
    EXPECT_EQ(hourly_price({.purchase_price = 8766}), 0);  // for how long is not known
}

TEST(MachinePrice, BuysTokens) {
    EXPECT_EQ(tokens_per_money({.price_per_hour = 2}, 100), 180'000);
    EXPECT_EQ(tokens_per_money({}, 100), 0);
}

TEST(MachineWear, IsWhatIsWrittenOverWhatMayBe) {
    EXPECT_DOUBLE_EQ(drive_wear({.endurance_bytes = 2400e12}, 0.84e12), 0.84 / 2400);
    EXPECT_EQ(drive_wear({}, 1e12), 0);
}

}  // namespace
}  // namespace windlass
