// Steps small enough to be worked out by hand.
#include "schedule/simulate.h"

#include <numeric>

#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

// One operation, byte or byte of a disk a second, so that demands are seconds. Nobody shares: what two lanes get
// together is not known.
Machine unit_machine() {
    return {.gemm_bf16_flops = 1,
            .gemm_f32_flops = 1,
            .memory_bytes_per_s = 1,
            .disk_read_bytes_per_s = 1,
            .disk_write_bytes_per_s = 1};
}

// Waits for so many tasks of the lanes for compute, reads and writes.
Waits waits(int compute, int read, int write) {
    return {{lane_number(LaneKind::compute), compute},
            {lane_number(LaneKind::disk_read), read},
            {lane_number(LaneKind::disk_write), write}};
}
Task computes(double flops, int64_t memory, const Waits& after = {}) {
    return {.demand = {.flops = flops, .memory_bytes = memory}, .after = after};
}
Task reads(int64_t bytes, const Waits& after = {}) {
    return {.verb = Verb::move,
            .lane = lane_number(LaneKind::disk_read),
            .demand = {.disk_read_bytes = bytes},
            .after = after};
}
Task writes(int64_t bytes, const Waits& after = {}) {
    return {.verb = Verb::move,
            .lane = lane_number(LaneKind::disk_write),
            .demand = {.disk_write_bytes = bytes},
            .after = after};
}

// A kernel computes while it reads: the slower of the two counts.
TEST(Simulate, OneLaneIsASum) {
    Schedule schedule{.tasks = {computes(3, 0), computes(2, 4), computes(0, 5)}};
    const Simulation result = simulate(schedule, unit_machine());
    EXPECT_EQ(result.seconds, 12);
    EXPECT_EQ(result.busy_seconds, (std::array<double, kLaneKinds>{12, 0, 0}));
    EXPECT_EQ(result.tasks[1].start_s, 3);
    EXPECT_EQ(result.tasks[1].end_s, 7);
    EXPECT_EQ(result.demand.flops, 5);
    EXPECT_EQ(result.demand.memory_bytes, 9);
}

// read   |==2==|==2==|
// compute      |===3===|===3===|       the second needs the second read, long done
// write                |==4===|        needs the first compute
TEST(Simulate, LanesOverlapUpToTheirWaits) {
    Schedule schedule{.tasks = {reads(2), computes(3, 0, waits(0, 1, 0)), reads(2), writes(4, waits(1, 0, 0)),
                                computes(3, 0, waits(0, 2, 0))}};
    const Simulation result = simulate(schedule, unit_machine());
    EXPECT_EQ(result.tasks[0].end_s, 2);
    EXPECT_EQ(result.tasks[1].start_s, 2);
    EXPECT_EQ(result.tasks[2].end_s, 4);
    EXPECT_EQ(result.tasks[3].start_s, 5);
    EXPECT_EQ(result.tasks[4].start_s, 5);
    EXPECT_EQ(result.seconds, 9);
    EXPECT_EQ(result.busy_seconds, (std::array<double, kLaneKinds>{6, 0, 0, 0, 4, 4}));
}

// Without room to read ahead the same work takes turns.
TEST(Simulate, AWaitForTheOtherLaneTakesTurns) {
    Schedule schedule{
        .tasks = {reads(2), computes(3, 0, waits(0, 1, 0)), reads(2, waits(1, 0, 0)), computes(3, 0, waits(0, 2, 0))}};
    EXPECT_EQ(simulate(schedule, unit_machine()).seconds, 10);
}

// What is written back each third step: a step of 3 seconds with it, of 1 without.
TEST(Simulate, AStepIsTheMeanOverThePeriodInWhichUpdatesGoHome) {
    Task home = writes(2, waits(1, 0, 0));
    home.when = When::write_back;
    Schedule schedule{.tasks = {computes(1, 0), home}};
    EXPECT_EQ(simulate(schedule, unit_machine()).seconds, 3);
    schedule.writeback_steps = 3;
    const Simulation mean = simulate(schedule, unit_machine());
    EXPECT_NEAR(mean.seconds, (3.0 + 1 + 1) / 3, 1e-12);
    EXPECT_NEAR(mean.busy_seconds[slot(LaneKind::disk_write)], 2.0 / 3, 1e-12);
    EXPECT_EQ(mean.busy_seconds[slot(LaneKind::compute)], 1);
    EXPECT_EQ(mean.demand.disk_write_bytes, 0);  // two thirds of a byte
    EXPECT_EQ(mean.tasks[1].end_s, 3);
}

TEST(Simulate, OfSeveralRoundsTheFirstAloneWrites) {
    Schedule schedule{.tasks = {reads(2), computes(3, 0, waits(0, 1, 0)), writes(4, waits(1, 0, 0))}};
    const Simulation once = simulate(schedule, unit_machine()), thrice = in_rounds(once, 3);
    EXPECT_EQ(thrice.seconds, 3 * once.seconds);
    EXPECT_EQ(thrice.busy_seconds, (std::array<double, kLaneKinds>{9, 0, 0, 0, 6, 4}));
    EXPECT_EQ(thrice.demand.disk_read_bytes, 3 * once.demand.disk_read_bytes);
    EXPECT_EQ(thrice.demand.disk_write_bytes, once.demand.disk_write_bytes);
    EXPECT_EQ(in_rounds(once, 1).seconds, once.seconds);
}

TEST(Simulate, AnUnknownRateCostsNothing) {
    Schedule schedule{.tasks = {reads(2), computes(3, 4)}};
    EXPECT_EQ(simulate(schedule, {}).seconds, 0);
}

// Each chunk that is rounded is a kernel of its own; a chunk whose gradient is widened before its update is two.
TEST(Simulate, RoundingIsAKernelAChunk) {
    Machine machine = unit_machine();
    machine.kernel_seconds = 100;
    const ParamKernel update{.uses = {{ParamSlot::gradient}}, .is_update = true, .has_update_rate = true};
    Schedule schedule{.params = {{.kernel = &kRoundGradient, .chunks = std::vector<ParamChunk>(3)},
                                 {.kernel = &update, .chunks = {{}, {.gradient_format = GradientFormat::i8}}}},
                      .tasks = {{.verb = Verb::param, .payload = 0, .demand = {.memory_bytes = 5}},
                                {.verb = Verb::param, .payload = 1, .demand = {.memory_bytes = 7}}}};
    const Simulation result = simulate(schedule, machine);
    EXPECT_EQ(result.tasks[0].end_s, 3 * 100 + 5);
    EXPECT_EQ(result.seconds - result.tasks[0].end_s, 3 * 100 + 7);
}

TEST(Simulate, TakesTheRateOfTheComputeType) {
    const Machine machine{.gemm_bf16_flops = 4, .gemm_f32_flops = 2};
    Schedule schedule{.tasks = {computes(8, 0)}};
    schedule.size.compute = DType::bf16;
    EXPECT_EQ(simulate(schedule, machine).seconds, 2);
    schedule.size.compute = DType::f32;
    EXPECT_EQ(simulate(schedule, machine).seconds, 4);
}

// Without a GPU and with one; with every rate that a machine has, and with the few that old notes of one have.
std::vector<Machine> machines() {
    const Machine few{
        .gemm_f32_flops = 1e9, .memory_bytes_per_s = 1e10, .disk_read_bytes_per_s = 1e8, .disk_write_bytes_per_s = 5e7};
    Machine host = few, device = few;
    host.name = "host";
    host.threads = 2;
    host.memory_bytes_per_s = 4e8;  // so little that lanes get in each other's way
    device.name = "device";
    device.unified_memory = false;
    device.memory_bytes_per_s = 3e8;
    device.device_memory_bytes_per_s = 1e9;
    device.link_up_bytes_per_s = 2e8;
    device.link_down_bytes_per_s = 1e8;
    device.link_both_bytes_per_s = 2.2e8;
    return {few, completed(host), completed(device)};
}

// One of four threads has a quarter of their rate, times the gain; all of them have it as it was measured.
TEST(Simulate, FewerThreadsWaitLessForEachOther) {
    Plan plan;
    Numerics numerics = numerics_of(DType::f32, 1, 32, 1);
    const auto seconds = [&](int threads, double gain) {
        plan.threads = threads;
        const ScheduleSet set = checked(tiny_model("llama"), make_recipe("adamw", {}), numerics, plan);
        const Machine machine{.threads = 4, .gemm_f32_flops = 1e6, .one_thread_gain = gain, .memory_bytes_per_s = 1e15};
        return simulate(set.schedules[0], machine).seconds;
    };
    EXPECT_NEAR(seconds(1, 1) / seconds(4, 1), 4, 1e-6);
    EXPECT_NEAR(seconds(1, 1.25) / seconds(4, 1), 4 / 1.25, 1e-6);
    EXPECT_NEAR(seconds(2, 1.3) / seconds(4, 1), 2 / 1.2, 1e-6);
    EXPECT_EQ(seconds(4, 1.25), seconds(4, 1));
}

// A step takes at least as long as its busiest lane, and no longer than if all tasks took turns.
TEST(Simulate, StepsLieBetweenTheBusiestLaneAndTheirSum) {
    const TrainedModel model = tiny_model("llama");
    for (const Machine& machine : machines()) {
        for (const Plan& plan : plans_on(DeviceKind::cpu)) {
            const ScheduleSet set = checked(model, make_recipe("adamw", {}), numerics_of(DType::f32, 1, 32, 3), plan);
            const Simulation result = simulate(set.schedules[0], machine);
            const auto &alone = result.alone_seconds, &busy = result.busy_seconds;
            const double rounding = 1 + 1e-9;
            EXPECT_GE(result.seconds * rounding, *std::max_element(busy.begin(), busy.end())) << describe(plan);
            for (size_t lane = 0; lane < alone.size(); ++lane)
                EXPECT_GE(busy[lane] * rounding, alone[lane]) << describe(plan);
            const double sum = std::accumulate(alone.begin(), alone.end(), 0.0);
            EXPECT_LE(result.seconds, sum * rounding) << describe(plan) << " on " << machine.name;
        }
    }
}

// Order moves nothing and computes the same: in memory both take the same time; from disk only layer_first exists, and
// its reads do not grow with the micro-batches while its computing does.
TEST(Simulate, AccumulationCostsNoReads) {
    const TrainedModel model = tiny_model("llama");
    const Machine machine{
        .gemm_f32_flops = 1e9, .memory_bytes_per_s = 1e10, .disk_read_bytes_per_s = 1e8, .disk_write_bytes_per_s = 5e7};
    const auto step = [&](const Plan& plan, int micro_batches) {
        return simulate(
            checked(model, make_recipe("adamw", {}), numerics_of(DType::f32, 1, 32, micro_batches), plan).schedules[0],
            machine);
    };
    const double micro_batch_first = step({.order = MicroOrder::micro_batch_first}, 4).seconds;
    EXPECT_NEAR(step({.order = MicroOrder::layer_first}, 4).seconds, micro_batch_first, 1e-9 * micro_batch_first);
    const Plan disk{.store = true, .common = {.weights = Home::disk, .state = Home::disk, .gradients = Home::disk}};
    const Simulation one = step(disk, 1), four = step(disk, 4);
    for (const LaneKind lane : {LaneKind::disk_read, LaneKind::disk_write})
        EXPECT_EQ(four.alone_seconds[slot(lane)], one.alone_seconds[slot(lane)]);
    EXPECT_GT(four.alone_seconds[slot(LaneKind::compute)], 2 * one.alone_seconds[slot(LaneKind::compute)]);
}

}  // namespace
}  // namespace windlass
