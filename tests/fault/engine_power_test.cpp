// Power lost anywhere in two steps of a run on disk: what is found again is a committed step, and ends the same.
#include "base/file_fault.h"
#include "base/log.h"
#include "tests/unit/run/engine_fixture.h"

namespace windlass {
namespace {

constexpr int64_t kSteps = 4;        // of an uninterrupted run
constexpr int64_t kFirstAtRisk = 2;  // steps 2 and 3 may lose their power

const Golden& golden() {
    static const Golden read("gpt2");  // a tied table: head and embedding share one parameter
    return read;
}
const TestBatch& batch(int64_t step) {
    static const TestBatch a(golden().ids("ids"), golden().ids("targets"), 2);
    static const TestBatch b(golden().ids("ids_b"), golden().ids("targets_b"), 2);
    return step % 2 == 1 ? a : b;
}

std::unique_ptr<Engine> engine_on(FileSystem& files, Home weights, bool load) {
    const EngineOptions options{.plan = disk_plan(weights, weights), .store_path = "/image/store.wls"};
    return make_engine(files, golden().folder, options, load);
}

void train(Engine& engine, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) train_on(engine, batch(step), step, 1e-2);
}

std::string state(Engine& engine, FileSystem& files) {
    return state_bytes(engine, files, "/image/state.wls");
}

// The state after each step of a run whose power stays.
std::vector<std::string> states_of(Home weights) {
    FaultFiles files("/image");
    const auto engine = engine_on(files, weights, true);
    std::vector<std::string> states = {state(*engine, files)};
    for (int64_t step = 1; step <= kSteps; ++step) {
        train(*engine, step, step);
        states.push_back(state(*engine, files));
    }
    return states;
}

// File calls that the steps at risk make. Lanes take turns as they like, so runs differ a little in their order only.
int64_t calls_at_risk(Home weights) {
    FaultFiles files("/image");
    const auto engine = engine_on(files, weights, true);
    train(*engine, 1, kFirstAtRisk - 1);
    const int64_t before = files.calls(FaultCall::any);
    train(*engine, kFirstAtRisk, kFirstAtRisk + 1);
    return files.calls(FaultCall::any) - before;
}

// Trains until the power goes after `calls` more calls; returns the last step whose commit returned.
int64_t train_until_dark(FaultFiles& files, Home weights, int64_t calls) {
    const auto engine = engine_on(files, weights, true);
    train(*engine, 1, kFirstAtRisk - 1);
    int64_t committed = kFirstAtRisk - 1;
    files.cut_power_after(calls);
    try {
        for (; committed <= kFirstAtRisk; ++committed) train(*engine, committed + 1, committed + 1);
    } catch (const MachineError&) {
    }
    return committed;
}

void expect_survival(Home weights, const std::vector<std::string>& states, int64_t calls, uint64_t seed) {
    SCOPED_TRACE(fmt::format("weights in {}, power lost after {} calls, seed {}", home_name(weights), calls, seed));
    FaultFiles files("/image");
    const int64_t committed = train_until_dark(files, weights, calls);
    const auto found = files.crash(seed);
    const auto engine = engine_on(*found, weights, false);
    const std::string run_state = engine->reopen();
    const int64_t step = run_state == run_state_of(committed) ? committed : committed + 1;
    ASSERT_EQ(run_state, run_state_of(step));
    ASSERT_TRUE(state(*engine, *found) == states[static_cast<size_t>(step)]) << "step " << step;
    train(*engine, step + 1, kSteps);
    ASSERT_TRUE(state(*engine, *found) == states.back()) << "from step " << step;
}

// At evenly spaced calls of the steps at risk; what was not synced is lost, kept or torn, by the seed.
void survive(Home weights, int64_t points) {
    set_log_level(LogLevel::error);  // not a line for each dead machine
    const std::vector<std::string> states = states_of(weights);
    const int64_t total = calls_at_risk(weights);
    ASSERT_GT(total, points);
    for (int64_t point = 0; point < points; ++point) {
        const int64_t calls = point * (total + 1) / points;
        expect_survival(weights, states, calls, static_cast<uint64_t>(point));
        if (testing::Test::HasFailure()) return;
    }
}

TEST(EnginePower, LostAnywhereWithEverythingOnDisk) {
    survive(Home::disk, 30);
}
TEST(EnginePower, LostAnywhereWithWeightsInMemory) {
    survive(Home::memory, 20);
}

// The calls of a commit are the last ones of a step: each of them.
TEST(EnginePower, LostInEveryCallOfACommit) {
    set_log_level(LogLevel::error);
    const std::vector<std::string> states = states_of(Home::disk);
    const int64_t total = calls_at_risk(Home::disk);
    for (int64_t calls = total - 4; calls <= total; ++calls) {
        for (const uint64_t seed : {0, 1, 2}) {
            expect_survival(Home::disk, states, calls, seed);
            if (HasFailure()) return;
        }
    }
}

TEST(SlowEnginePower, LostAlmostEverywhere) {
    survive(Home::disk, 160);
    survive(Home::memory, 80);
}

}  // namespace
}  // namespace windlass
