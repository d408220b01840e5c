// Lanes that want the same thing at once, worked out by hand.
#include "schedule/price.h"
#include "schedule/simulate.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

Task task_of(Verb verb, LaneKind lane, const Demand& demand) {
    return {.verb = verb, .lane = lane_number(lane), .demand = demand};
}
Task compute(double flops, int64_t memory) {
    return task_of(Verb::run, LaneKind::compute, {.flops = flops, .memory_bytes = memory});
}
Task update(int64_t memory, LaneKind lane = LaneKind::host) {
    return task_of(Verb::param, lane, {.memory_bytes = memory});
}
const ParamKernel& update_kernel() {
    return *find_method("adamw").recipe({}).update();
}
// Of these tasks, whose updates are of one chunk.
Schedule updating(std::vector<Task> tasks) {
    for (Task& task : tasks) task.payload = task.verb == Verb::param ? 0 : task.payload;
    return {.params = {{.kernel = &update_kernel(), .chunks = {{}}}}, .tasks = std::move(tasks)};
}
Task up(int64_t bytes) {
    return task_of(Verb::move, LaneKind::up, {.up_bytes = bytes});
}
Task down(int64_t bytes) {
    return task_of(Verb::move, LaneKind::down, {.down_bytes = bytes});
}
Task read(int64_t bytes) {
    return task_of(Verb::move, LaneKind::disk_read, {.disk_read_bytes = bytes});
}
Task write(int64_t bytes) {
    return task_of(Verb::move, LaneKind::disk_write, {.disk_write_bytes = bytes});
}

// A device beside the host.
Machine apart() {
    return {.threads = 4,
            .unified_memory = false,
            .gemm_bf16_flops = 1,
            .gemm_f32_flops = 1,
            .memory_bytes_per_s = 100,
            .device_memory_bytes_per_s = 1000,
            .link_up_bytes_per_s = 10,
            .link_down_bytes_per_s = 10,
            .link_both_bytes_per_s = 16,
            .disk_read_bytes_per_s = 6,
            .disk_write_bytes_per_s = 3,
            .disk_mixed_bytes_per_s = 4};
}

// Together 16 bytes a second, 8 each way. Down ends at 5 s; up has 40 bytes left and goes on at 10.
TEST(Sharing, TheLinkGivesBothWaysTheirSum) {
    const Schedule schedule{.tasks = {up(80), down(40)}};
    const Simulation result = simulate(schedule, apart());
    EXPECT_DOUBLE_EQ(result.tasks[1].end_s, 5);
    EXPECT_DOUBLE_EQ(result.seconds, 9);
    EXPECT_DOUBLE_EQ(result.alone_seconds[slot(LaneKind::up)], 8);
    EXPECT_DOUBLE_EQ(result.busy_seconds[slot(LaneKind::up)], 9);
    EXPECT_DOUBLE_EQ(result.busy_seconds[slot(LaneKind::down)], 5);
}

// A drive that takes turns: 12 bytes take 2 s to read and 4 s to write. At half speed the read ends at 4 s; then the
// write has 2 s left.
TEST(Sharing, DrivesThatTakeTurns) {
    const Schedule schedule{.tasks = {read(12), write(12)}};
    const Simulation result = simulate(schedule, apart());
    EXPECT_DOUBLE_EQ(result.tasks[0].end_s, 4);
    EXPECT_DOUBLE_EQ(result.seconds, 6);
}

// Equal rates, and a sum of 9 where one way has 6: each goes on at 4.5.
TEST(Sharing, DrivesThatReadWhileTheyWrite) {
    Machine machine = apart();
    machine.disk_write_bytes_per_s = 6;
    machine.disk_mixed_bytes_per_s = 9;
    const Schedule schedule{.tasks = {read(18), write(18)}};
    EXPECT_DOUBLE_EQ(simulate(schedule, machine).seconds, 4);
    machine.disk_mixed_bytes_per_s = 12;
    EXPECT_DOUBLE_EQ(simulate(schedule, machine).seconds, 3);
}

// The update alone takes all of the memory, the copy 10 of 100. Together 1.1: both are slowed by it. The copy of 10 s
// ends at 11 s, the update has 100 - 10 seconds left.
TEST(Sharing, UpdatesAndCopiesShareTheMemoryOfTheHost) {
    Schedule schedule = updating({update(10000), up(100)});
    schedule.host_threads = 4;
    const Simulation result = simulate(schedule, apart());
    EXPECT_DOUBLE_EQ(result.tasks[1].end_s, 11);
    EXPECT_DOUBLE_EQ(result.seconds, 101);
}

// Half of the threads, half of the rate, and nobody is in the way.
// What the compute lane of a device updates is in the device's memory, whether or not the host updates something else.
TEST(Sharing, UpdatesWhereADeviceComputesHaveItsMemorysRate) {
    for (const int host_threads : {0, 4}) {
        Schedule schedule = updating({update(10000, LaneKind::compute)});
        schedule.host_threads = host_threads;
        const Price price = PriceList(schedule, apart()).of(schedule.tasks[0]);
        EXPECT_DOUBLE_EQ(price.seconds, 10000.0 / 1000);
        EXPECT_DOUBLE_EQ(price.shares[static_cast<size_t>(Resource::device_memory)], 1);
        EXPECT_DOUBLE_EQ(price.shares[static_cast<size_t>(Resource::host_memory)], 0);
        EXPECT_DOUBLE_EQ(price.shares[static_cast<size_t>(Resource::cores)], 0);
    }
}

TEST(Sharing, UpdatesHaveTheRateOfTheirThreads) {
    Machine machine = apart();
    machine.update_bytes_per_s = 80;
    Schedule schedule = updating({update(800)});
    schedule.host_threads = 2;
    EXPECT_DOUBLE_EQ(simulate(schedule, machine).seconds, 20);
}

// Of one kind, where it is known; of others as before.
TEST(Sharing, UpdatesHaveTheRateOfTheirKind) {
    Machine machine = apart();
    machine.update_bytes_per_s = 80;
    machine.updates = {{"adamw 16", 20}};
    machine.device_updates = {{"adamw 16", 500}};
    const auto seconds = [&](const std::string& key, LaneKind lane) {
        Schedule schedule = updating({update(2000, lane)});
        schedule.update_key = key;
        schedule.host_threads = schedule.size.threads = machine.threads;
        return PriceList(schedule, machine).of(schedule.tasks[0]).seconds;
    };
    EXPECT_DOUBLE_EQ(seconds("adamw 16", LaneKind::host), 100);
    EXPECT_DOUBLE_EQ(seconds("adamw 28", LaneKind::host), 25);
    EXPECT_DOUBLE_EQ(seconds("adamw 16", LaneKind::compute), 4);
    EXPECT_DOUBLE_EQ(seconds("adamw 28", LaneKind::compute), 2);
    // Without a device both lanes have the host's rate.
    machine.unified_memory = true;
    for (const LaneKind lane : {LaneKind::host, LaneKind::compute}) EXPECT_DOUBLE_EQ(seconds("adamw 16", lane), 100);
}

// The disk reads 6 bytes a second; each passes the memory twice, once for the drive and once for its checksum.
TEST(Sharing, DisksDrawOnTheMemory) {
    Machine machine = apart();
    machine.memory_bytes_per_s = 24;
    Schedule schedule = updating({update(24 * 6), read(6 * 6)});
    schedule.host_threads = 4;
    // 1 + 1/2 of what there is: both take half as long again.
    EXPECT_DOUBLE_EQ(simulate(schedule, machine).seconds, 9);
    EXPECT_DOUBLE_EQ(simulate(schedule, machine).tasks[0].end_s, 9);
}

// What has a checksum takes a part of one thread while the drive works, and no less time than the sum.
TEST(Sharing, ChecksumsOfWeightsAndStateTakeAThread) {
    Machine machine = apart();
    machine.checksum_bytes_per_s = 12;
    Schedule schedule{.moves = {{.place = DiskPlace::state}, {.place = DiskPlace::gradient}}, .tasks = {read(36)}};
    const auto price = [&](int payload) {
        schedule.tasks[0].payload = payload;
        return PriceList(schedule, machine).of(schedule.tasks[0]);
    };
    const auto cores = [](const Price& price) { return price.shares[static_cast<size_t>(Resource::cores)]; };
    // 3 s of summing in 6 s of reading, by one of four threads.
    EXPECT_DOUBLE_EQ(price(0).seconds, 6 + machine.task_seconds);
    EXPECT_DOUBLE_EQ(cores(price(0)), 3.0 / 6 / 4);
    EXPECT_DOUBLE_EQ(cores(price(1)), 0);
    machine.checksum_bytes_per_s = 3;
    EXPECT_DOUBLE_EQ(price(0).seconds, 12 + machine.task_seconds);
    EXPECT_DOUBLE_EQ(cores(price(0)), 1.0 / 4);
    // A mark on the lane is no move: its payload says nothing about one.
    const Schedule marks{.hosts = std::vector<HostTask>(8),
                         .tasks = {{.verb = Verb::host, .lane = lane_number(LaneKind::disk_write), .payload = 7}}};
    EXPECT_DOUBLE_EQ(PriceList(marks, machine).of(marks.tasks[0]).seconds, machine.task_seconds);
}

// Two of two cores compute, one of them is wanted for updates as well.
TEST(Sharing, WithoutADeviceLanesShareCores) {
    const Machine machine{.threads = 2, .gemm_f32_flops = 2, .update_bytes_per_s = 2};
    Schedule schedule = updating({compute(8, 0), update(2)});
    schedule.size.threads = 2;
    schedule.host_threads = 1;
    // Computing alone 4 s, updating alone 2 s; 1.5 times as many cores are wanted as there are.
    const Simulation result = simulate(schedule, machine);
    EXPECT_DOUBLE_EQ(result.tasks[1].end_s, 3);
    EXPECT_DOUBLE_EQ(result.seconds, 5);
    schedule.size.threads = 1;  // apart: each has its core
    EXPECT_DOUBLE_EQ(simulate(schedule, machine).seconds, 8);
}

// One thread copies: what it takes of the cores is what all of them would need for it.
TEST(Sharing, WithoutADeviceCopiesTakeCoresAndMemory) {
    const Machine machine{.threads = 2,
                          .gemm_f32_flops = 1,
                          .memory_bytes_per_s = 8,
                          .link_up_bytes_per_s = 1,
                          .link_down_bytes_per_s = 1,
                          .link_both_bytes_per_s = 2};
    Schedule schedule{.tasks = {up(4)}};
    schedule.size.threads = 2;
    const Price price = PriceList(schedule, machine).of(schedule.tasks[0]);
    EXPECT_DOUBLE_EQ(price.seconds, 4);
    EXPECT_DOUBLE_EQ(price.shares[static_cast<size_t>(Resource::cores)], 0.25);
    EXPECT_DOUBLE_EQ(price.shares[static_cast<size_t>(Resource::host_memory)], 0.25);
    EXPECT_DOUBLE_EQ(price.shares[static_cast<size_t>(Resource::link)], 0.5);
}

// Handing over costs each task, calling each kernel: here one task of one chunk and one of three.
TEST(Sharing, TasksAndKernelsCostTheirCall) {
    const Machine machine{.task_seconds = 1, .kernel_seconds = 0.25};
    Schedule schedule = updating({compute(0, 0), update(0, LaneKind::compute)});
    schedule.params[0].chunks.resize(3);
    const Simulation result = simulate(schedule, machine);
    EXPECT_DOUBLE_EQ(result.tasks[0].end_s, 1.25);
    EXPECT_DOUBLE_EQ(result.seconds, 1.25 + 1.75);
}

// A segment is its kernels, each at the rate of its shape or of the memory, whichever is slower.
TEST(Sharing, SegmentsArePricedKernelByKernel) {
    const Machine machine{.gemm_f32_flops = 4e9,
                          .narrow_f32_flops = 1e9,
                          .attention_f32_flops = 2e9,
                          .memory_bytes_per_s = 1e9,
                          .kernel_seconds = 1e-3};
    for (const int64_t length : {int64_t{8}, kNarrowRows, int64_t{64}}) {
        const ScheduleSet set =
            checked(tiny_model("llama"), make_recipe("adamw", {}), numerics_of(DType::f32, 1, length, 1), {});
        const Schedule& schedule = set.schedules[0];
        const PriceList prices(schedule, machine);
        for (const Task& task : schedule.tasks) {
            if (task.verb != Verb::run) continue;
            const int segment = schedule.runs[static_cast<size_t>(task.payload)].segment;
            double seconds = 0;
            for (const SegmentCall& call : schedule.segments[static_cast<size_t>(segment)].calls) {
                double rate = length <= 32 ? 1e9 : 4e9;
                if (call.node->op->name == "attention") rate = 2e9;
                seconds += 1e-3 + std::max(call.cost.flops / rate, static_cast<double>(call.cost.bytes) / 1e9);
            }
            EXPECT_NEAR(prices.of(task).seconds, seconds, 1e-12);
        }
    }
}

}  // namespace
}  // namespace windlass
