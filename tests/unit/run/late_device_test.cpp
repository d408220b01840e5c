// On a device that runs ahead and completes late, in an order of its own, placement changes no bit; where a wait is
// missing it does, or two tasks meet in the same bytes.
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <thread>

#include "schedule/task_order.h"
#include "tests/sanitizer.h"
#include "tests/unit/device/fake_async.h"
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/schedule/param_tasks.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr const char* kModels[] = {"gpt2", "llama", "llama3"};
constexpr size_t kWays = 12;  // model, type, accumulation
constexpr uint64_t kSeeds = 3;
constexpr size_t kOnDevice = 0, kHostStream = 12, kThreeTier = 30, kMixed = 50;  // of plans_apart()

// A way to train, and what everything in memory gives.
struct Reference {
    explicit Reference(size_t way)
        : golden(kModels[way % 3]),
          batches(batches_of(golden)),
          options{.compute = way / 3 % 2 == 0 ? DType::f32 : DType::bf16,
                  .method = {.weight_decay = 0.1, .max_grad_norm = way % 3 == 1 ? 3.2 : 2.9},
                  .micro_batch_size = way / 6 == 0 ? 2 : 1,
                  .micro_batches = way / 6 == 0 ? 1 : 2},
          outcome(run_steps(golden, batches, options)) {
        expect_some_clipped(outcome);
    }
    Golden golden;
    std::array<TestBatch, 2> batches;
    EngineOptions options;
    Outcome outcome;
};

const Reference& reference(size_t way) {
    static std::map<size_t, Reference> made;
    return made.try_emplace(way, way).first->second;
}

// On a device with memory of its own.
std::vector<Plan> plans_apart(const TrainedModel& model) {
    std::vector<Plan> plans = with_mixed(all_plans(), model);
    std::erase_if(plans, [](const Plan& plan) { return !plan.own_memory(); });
    return plans;
}

EngineOptions options_with(const Reference& known, size_t plan) {
    EngineOptions options = known.options;
    options.plan = plans_apart(tiny_model("gpt2"))[plan];
    return options;
}

struct Tally {
    int placements = 0, runs = 0;
    int64_t waits = 0, ran_ahead = 0;
};

void expect_no_bit_changes(size_t way, size_t index, uint64_t seeds, Tally& tally) {
    const Reference& known = reference(way);
    EngineOptions options = known.options;
    options.plan = plans_apart(tiny_model(kModels[way % 3]))[index];
    ++tally.placements;
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
        FakeAsync device({.seed = 1000 * (kWays * index + way) + seed});
        options.device = &device;
        options.emulation = {.jitter_seed = seed, .jitter_ns = seed % 2 == 0 ? 50'000 : 0};
        EXPECT_TRUE(run_steps(known.golden, known.batches, options) == known.outcome)
            << describe(options.plan) << (options.plan.blocks.empty() ? "" : ", mixed") << ", way " << way << ", seed "
            << seed;
        ++tally.runs;
        tally.waits += device.waits();
        tally.ran_ahead += device.ran_ahead();
    }
}

void print(const Tally& tally) {
    EXPECT_GT(tally.waits, 0) << "no stream waited for another";
    EXPECT_GT(tally.ran_ahead, 0) << "nothing ran ahead";
    fmt::print("{} placements, {} runs: streams waited {} times, {} launches ran ahead\n", tally.placements, tally.runs,
               tally.waits, tally.ran_ahead);
}

TEST(LateDevice, NeverChangesABit) {
    const size_t plans = plans_apart(tiny_model("gpt2")).size(), sample = is_sanitized() ? 4 : 12;
    Tally tally;
    for (size_t trial = 0; trial < sample; ++trial)
        expect_no_bit_changes(trial % kWays, plan_of_trial(trial, plans), 1, tally);
    print(tally);
}

TEST(SlowLateDevice, NeverChangesABit) {
    const size_t plans = plans_apart(tiny_model("gpt2")).size();
    Tally tally;
    for (size_t trial = 0; trial < 2 * plans; ++trial)
        expect_no_bit_changes((trial + trial / plans) % kWays, trial % plans, kSeeds, tally);
    EXPECT_GE(tally.placements, 100);
    print(tally);
}

// Methods that go forward only, and updates that stay beside the weights.
std::vector<EngineOptions> forward_only_ways() {
    std::vector<EngineOptions> ways;
    for (const char* const method : {"zeroth_order", "forward_gradient"})
        ways.push_back(forward_only_options(method, {.directions = 2}));
    for (const Merge merge : {Merge::per_window, Merge::never}) {
        const bool never = merge == Merge::never;
        ways.push_back(forward_only_options("zeroth_order", {.directions = 2,
                                                             .noise = NoiseKind::low_rank,
                                                             .noise_window = never ? 0 : 3,
                                                             .noise_keeps_left = never,
                                                             .merge = merge}));
    }
    return ways;
}

// On the plans of theirs that leave the device's memory to it.
void expect_no_bit_changes_forward_only(uint64_t seeds, size_t stride) {
    Tally tally;
    for (EngineOptions options : forward_only_ways()) {
        const Golden golden("llama");
        const std::array<TestBatch, 2> batches = batches_of(golden);
        const Outcome expected = run_steps(golden, batches, options);
        EXPECT_NE(expected.losses[0], expected.losses[2]) << "nothing was learnt";
        std::vector<Plan> plans = forward_only_plans(DeviceKind::cpu, tiny_model("llama").blocks.size());
        std::erase_if(plans, [](const Plan& plan) { return !plan.own_memory(); });
        for (size_t index = 0; index < plans.size(); index += stride) {
            options.plan = plans[index];
            if (options.method.merge == Merge::each_step)
                options.plan.writeback_steps = 1 + static_cast<int>(index % 3);
            ++tally.placements;
            for (uint64_t seed = 1; seed <= seeds; ++seed, ++tally.runs) {
                FakeAsync device({.seed = 1000 * index + seed});
                options.device = &device;
                EXPECT_TRUE(run_steps(golden, batches, options) == expected)
                    << options.method_name << ", merge " << static_cast<int>(options.method.merge) << ", "
                    << describe(options.plan) << ", seed " << seed;
                tally.waits += device.waits();
                tally.ran_ahead += device.ran_ahead();
            }
            options.device = nullptr;
        }
    }
    print(tally);
}

TEST(LateDevice, ForwardOnlyNeverChangesABit) {
    expect_no_bit_changes_forward_only(1, is_sanitized() ? 23 : 7);
}

TEST(SlowLateDevice, ForwardOnlyNeverChangesABit) {
    expect_no_bit_changes_forward_only(kSeeds, 1);
}

// What is in flight when a drive fails, or is asked to stop, is complete before the step is over: the engine, and all
// that its work refers to, may go.
TEST(LateDevice, AFailedDriveEndsTheStepAndTheStoreGoesOn) {
    const Reference& known = reference(0);
    EngineOptions options = options_with(known, kThreeTier);
    options.store_path = "/image/store.wls";
    const auto state = [](Engine& engine, FileSystem& files) { return state_bytes(engine, files, "/image/state.wls"); };
    const auto rows = [&](int64_t step) -> const TestBatch& { return known.batches[step % 2 == 1 ? 0 : 1]; };
    for (const FaultCall call : {FaultCall::write, FaultCall::read}) {
        for (const int64_t nth : {1, 7, 20}) {
            FakeAsync device({.seed = static_cast<uint64_t>(nth)});
            options.device = &device;
            FaultFiles files("/image");
            std::string first;
            {
                const auto engine = make_engine(files, known.golden.folder, options);
                train_on(*engine, rows(1), 1, 1e-2);
                engine->flush();
                first = state(*engine, files);
                files.fail({.call = call, .nth = nth});
                EXPECT_THROW(
                    engine->train_step(train_schedule(*engine, rows(2)), step_input(*engine, rows(2), 2, 1e-2)),
                    MachineError);
                files.clear_rules();
            }
            const auto engine = make_engine(files, known.golden.folder, options, false);
            EXPECT_EQ(engine->reopen(), run_state_of(1));
            EXPECT_TRUE(state(*engine, files) == first);
        }
    }
}

TEST(LateDevice, AStopAtAnyTimeAppliesTheWholeStepOrNothing) {
    const Reference& known = reference(0);
    EngineOptions options = options_with(known, kHostStream);
    const TempFolder folder;
    const auto state = [&](Engine& engine) { return state_bytes(engine, real_files(), folder / "state.wls"); };
    std::string before, after;
    {
        FakeAsync device({});
        options.device = &device;
        const auto engine = make_engine(real_files(), known.golden.folder, options);
        before = state(*engine);
        train_on(*engine, known.batches[0], 1, 1e-2);
        after = state(*engine);
    }
    int applied = 0;
    constexpr int kTrials = 24;
    for (int trial = 0; trial < kTrials; ++trial) {
        FakeAsync device({.seed = static_cast<uint64_t>(trial)});
        options.device = &device;
        const auto engine = make_engine(real_files(), known.golden.folder, options);
        std::jthread stopper([&engine, trial] {
            std::this_thread::sleep_for(std::chrono::microseconds(400 * trial));
            engine->request_stop();
        });
        bool is_applied = true;
        try {
            train_on(*engine, known.batches[0], 1, 1e-2);
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ExitCode::interrupted);
            is_applied = false;
        }
        EXPECT_TRUE(state(*engine) == (is_applied ? after : before)) << trial;
        applied += is_applied ? 1 : 0;
    }
    fmt::print("{} of {} steps were finished\n", applied, kTrials);
}

// A method whose n-th update fails on the device.
struct FailingUpdate {
    static inline std::atomic<int> countdown = 0;
    static inline ParamKernel kernel;
    static inline ParamCell cell = nullptr;
    static void update(const ParamCall& call, Stream& stream) {
        if (--countdown == 0) throw std::runtime_error("the device is gone");
        cell(call, stream);
    }
};

TEST(LateDevice, AFailedLaunchEndsTheStep) {
    const Reference& known = reference(0);
    for (const int nth : {1, 5}) {
        FakeAsync device({});
        EngineOptions options = options_with(known, kOnDevice);
        options.device = &device;
        EngineSetup setup = make_engine(real_files(), known.golden.folder, options, false)->setup();
        FailingUpdate::cell = replace_cell(setup.schedules, is_update, FailingUpdate::kernel, FailingUpdate::update);
        Engine engine(real_files(), std::move(setup));
        ModelFolder folder = ModelFolder::open(real_files(), known.golden.folder);
        engine.load(folder, "{}");
        FailingUpdate::countdown = nth;
        EXPECT_THROW(train_on(engine, known.batches[0], 1, 1e-2), std::runtime_error) << nth;
    }
}

// Whether these steps end otherwise than they should, or not at all: two tasks that hold the same bytes abort.
bool is_found(const Reference& known, const EngineOptions& options, const FakeAsync::Options& device_options) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    WINDLASS_CHECK(child >= 0, "fork failed");
    if (child == 0) {
        for (std::FILE* const stream : {stdout, stderr})
            if (std::freopen("/dev/null", "w", stream) == nullptr) ::_exit(0);
        FakeAsync device(device_options);
        EngineOptions own = options;
        own.device = &device;
        ::_exit(run_steps(known.golden, known.batches, own) == known.outcome ? 0 : 1);
    }
    int status = 0;
    WINDLASS_CHECK(::waitpid(child, &status, 0) == child, "no child");
    return status != 0;
}

// Waits that no other wait implies: of a task of the training schedule for a lane.
std::vector<std::pair<size_t, int>> waits_that_count(const Schedule& schedule) {
    std::vector<std::pair<size_t, int>> found;
    Schedule less = schedule;
    for (size_t task = 0; task < schedule.tasks.size(); ++task) {
        for (const Wait& wait : schedule.tasks[task].after) {
            less.tasks[task].after.drop(wait.lane);
            if (TaskOrder(less).before(task)[static_cast<size_t>(wait.lane)] < wait.count)
                found.emplace_back(task, wait.lane);
            less.tasks[task].after = schedule.tasks[task].after;
        }
    }
    return found;
}

constexpr uint64_t kTries = 10;  // seeds under which a fault may show

// Every so many of the waits of the training schedule, left out one at a time. Between the host and the
// drives a few do not show: what they order lies far apart in steps as small as these.
void expect_missing_waits_found(size_t plan, size_t stride, double share) {
    const Reference& known = reference(0);
    EngineOptions options = options_with(known, plan);
    std::vector<std::pair<size_t, int>> waits;
    Schedule schedule;
    options.spoil = [&](ScheduleSet& set) {
        schedule = set.schedules[0];
        waits = waits_that_count(schedule);
    };
    FakeAsync device({});
    options.device = &device;
    FaultFiles image("/image");
    make_engine(image, known.golden.folder, options, /*load=*/false);
    int left_out = 0, found = 0;
    for (size_t each = 0; each < waits.size(); each += stride) {
        const auto [task, lane] = waits[each];
        options.spoil = [task = task, lane = lane](ScheduleSet& set) { set.schedules[0].tasks[task].after.drop(lane); };
        bool is = false;
        for (uint64_t seed = 1; seed <= kTries && !is; ++seed) {
            options.emulation = {.jitter_seed = seed, .jitter_ns = seed % 2 == 0 ? 400'000 : 0};
            is = is_found(known, options, {.seed = seed});
        }
        const auto name = [&](int number) { return lane_name(schedule.lanes[static_cast<size_t>(number)].kind); };
        if (!is)
            fmt::print("not found: {}, task {}, does not wait for {}\n", name(schedule.tasks[task].lane), task,
                       name(lane));
        ++left_out;
        found += is ? 1 : 0;
    }
    EXPECT_GT(left_out, 0);
    EXPECT_GE(found, share * left_out);
    fmt::print("{}: of {} waits that were left out {} are found\n", describe(options.plan), left_out, found);
}

// Streams, too, may wait for what they need not: for what the event of another stream implies, or for bytes that are
// written again as they were. So not each of them is missed.
void expect_forgotten_waits_found(size_t plan, int64_t sample, double share) {
    const Reference& known = reference(0);
    EngineOptions options = options_with(known, plan);
    int64_t most = 0;
    {
        FakeAsync device({.seed = 1});
        options.device = &device;
        run_steps(known.golden, known.batches, options);
        most = device.waits();
    }
    int forgotten = 0, found = 0;
    for (int64_t wait = 1; wait <= most; wait += 1 + most / sample, ++forgotten) {
        for (uint64_t seed = 1; seed <= 4; ++seed) {
            if (!is_found(known, options, {.seed = seed, .forgotten_wait = wait})) continue;
            ++found;
            break;
        }
    }
    EXPECT_GT(found, share * forgotten);
    fmt::print("{}: of {} forgotten waits of a stream {} are found\n", describe(options.plan), forgotten, found);
}

TEST(LateDevice, AMissingWaitIsFound) {
    expect_missing_waits_found(kHostStream, 6, 1);
}
TEST(LateDevice, AForgottenWaitOfAStreamIsFound) {
    expect_forgotten_waits_found(kHostStream, 8, 0);
}
TEST(SlowLateDevice, AMissingWaitIsFound) {
    expect_missing_waits_found(kHostStream, 1, 1);
    for (const size_t plan : {kThreeTier, kMixed}) expect_missing_waits_found(plan, 1, 0.8);
}
TEST(SlowLateDevice, AForgottenWaitOfAStreamIsFound) {
    for (const size_t plan : {kHostStream, kThreeTier, kMixed}) expect_forgotten_waits_found(plan, 30, 0.25);
}

}  // namespace
}  // namespace windlass
