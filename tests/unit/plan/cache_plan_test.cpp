// Where a plan for generation keeps keys and values of earlier tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/planner.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr int64_t kCapacity = 1 << 16;  // tokens: the caches are larger than all the weights

PlanOutcome find_plan_to_generate(const Budgets& budgets, bool own_memory) {
    const PlanRequest request{
        .device = {.own_memory = own_memory},
        .budgets = budgets,
        .schedules = {{.kind = ScheduleRequest::Kind::decode, .sequence_length = 1, .cache_capacity = kCapacity}}};
    const Machine machine{.gemm_bf16_flops = 1e12,
                          .gemm_f32_flops = 5e11,
                          .memory_bytes_per_s = 2e10,
                          .disk_read_bytes_per_s = 3e9,
                          .disk_write_bytes_per_s = 1e9};
    return find_plan(tiny_model("llama"), forward_recipe(), numerics_of(DType::f32, 1, 8, 1), machine, request);
}

Planned plan_to_generate(const Budgets& budgets, bool own_memory) {
    return std::get<Planned>(find_plan_to_generate(budgets, own_memory));
}

int64_t cache_bytes(const Planned& planned) {
    int64_t bytes = 0;
    for (const CachePlace& place : planned.schedules.ids.caches) bytes += place.bytes;
    return bytes;
}

TEST(CachePlan, StaysOnTheDeviceWhereThatHoldsIt) {
    const Planned planned = plan_to_generate({.ram = kPlenty, .disk = kPlenty, .device = kPlenty}, true);
    EXPECT_EQ(planned.plan.of(1).cache, Home::device);
    EXPECT_EQ(planned.step.busy_seconds[slot(LaneKind::down)], 0);
}

TEST(CachePlan, WaitsInMemoryWhereTheDeviceHasNoRoomForAll) {
    const Planned all = plan_to_generate({.ram = kPlenty, .device = kPlenty}, true);
    const Planned some = plan_to_generate({.ram = kPlenty, .device = cache_bytes(all) * 3 / 4}, true);
    EXPECT_EQ(some.plan.of(1).cache, Home::host);
    EXPECT_LE(some.device_bytes, cache_bytes(all) * 3 / 4);
    EXPECT_GE(some.memory_bytes, cache_bytes(all));
}

TEST(CachePlan, WaitsOnDiskWhereMemoryHasNoRoomForAll) {
    const Planned all = plan_to_generate({.ram = kPlenty}, false);
    const int64_t ram = cache_bytes(all) * 3 / 4;
    const Planned some = plan_to_generate({.ram = ram, .disk = kPlenty}, false);
    EXPECT_EQ(some.plan.of(1).cache, Home::disk);
    EXPECT_LE(some.memory_bytes, ram);
    EXPECT_GE(some.disk_bytes, cache_bytes(all));
}

// Its flags are other ones than those of training.
TEST(CachePlan, IsRefusedWithWhatGenerationMayBeGiven) {
    const Planned all = plan_to_generate({.ram = kPlenty}, false);
    const NoFit none = std::get<NoFit>(find_plan_to_generate({.ram = cache_bytes(all) * 3 / 4}, false));
    EXPECT_THAT(none.ways_out,
                testing::ElementsAre(testing::StartsWith("--ram "), testing::StartsWith("--ssd-dir DIR "),
                                     "a shorter prompt or a smaller --max-new-tokens"));
    EXPECT_THAT(none.ways_out, testing::Each(testing::Not(testing::HasSubstr("--policy"))));
}

}  // namespace
}  // namespace windlass
