// Power lost anywhere in two steps of a run on disk: what is found again is a committed step, and ends the same. Under
// plans that keep state on disk, or cached in memory and written through, and for every time of the update.
#include "base/log.h"
#include "tests/fault_files.h"
#include "tests/sanitizer.h"
#include "tests/unit/run/engine_fixture.h"

namespace windlass {
namespace {

constexpr int64_t kSteps = 4;        // of an uninterrupted run
constexpr int64_t kFirstAtRisk = 2;  // steps 2 and 3 may lose their power
constexpr double kNormLimit = 2.82;  // clips one of the steps at risk: guesses are right once, and wrong once

const Golden& golden() {
    static const Golden read("gpt2");  // a tied table: head and embedding share one parameter
    return read;
}
const TestBatch& batch(int64_t step) {
    static const TestBatch a(golden().ids("ids"), golden().ids("targets"), 2);
    static const TestBatch b(golden().ids("ids_b"), golden().ids("targets_b"), 2);
    return step % 2 == 1 ? a : b;
}

size_t block_count() {
    static const size_t count = [] {
        ModelFolder folder = ModelFolder::open(real_files(), golden().folder);
        HfConfig config = folder.config();
        return build_model(config, folder.tensors()).blocks.size();
    }();
    return count;
}

enum class Homes { disk, weights_in_memory, cached, mixed };

struct Setup {
    Homes homes = Homes::disk;
    UpdateTime update = UpdateTime::after_backward;
    const char* method = "adamw";
    int writeback_steps = 1;
    std::string name() const {
        if (writeback_steps > 1) return fmt::format("{}_{}_each_{}", method, homes_name(), writeback_steps);
        if (method != std::string_view("adamw")) return fmt::format("{}_{}", method, homes_name());
        static constexpr const char* kTimes[] = {"after_backward", "in_backward", "next_forward"};
        return fmt::format("{}_{}", homes_name(), kTimes[static_cast<size_t>(update)]);
    }
    const char* homes_name() const {
        static constexpr const char* kNames[] = {"disk", "weights_in_memory", "cached", "mixed"};
        return kNames[static_cast<size_t>(homes)];
    }
};
void PrintTo(const Setup& setup, std::ostream* out) {
    *out << setup.name();
}

Plan plan_of(const Setup& setup) {
    const bool near = setup.homes == Homes::weights_in_memory || setup.homes == Homes::cached;
    const Home home = near ? Home::device : Home::disk;
    Plan plan = disk_plan(home, home);
    plan.common.update = setup.update;
    plan.writeback_steps = setup.writeback_steps;
    if (setup.homes == Homes::cached) plan.common.state = Home::device;
    if (setup.homes == Homes::mixed) plan = mixed_plan(plan, block_count());
    for (BlockPlan& block : plan.blocks) {
        if (setup.method != std::string_view("adamw")) block.update = setup.update;
    }
    return plan;
}

std::unique_ptr<Engine> engine_on(FileSystem& files, const Setup& setup, bool load) {
    const EngineOptions options{.plan = plan_of(setup),
                                .method_name = setup.method,
                                .method = {.max_grad_norm = kNormLimit},
                                .store_path = "/image/store.wls"};
    return make_engine(files, golden().folder, options, load);
}

void train(Engine& engine, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) train_on(engine, batch(step), step, 1e-2);
}

std::string state(Engine& engine, FileSystem& files) {
    return state_bytes(engine, files, "/image/state.wls");
}

// The state after each step of a run whose power stays.
std::vector<std::string> states_of(const Setup& setup) {
    FaultFiles files("/image");
    const auto engine = engine_on(files, setup, true);
    std::vector<std::string> states = {state(*engine, files)};
    for (int64_t step = 1; step <= kSteps; ++step) {
        train(*engine, step, step);
        states.push_back(state(*engine, files));
    }
    return states;
}

// File calls that the steps at risk make. Lanes take turns as they like, so runs differ a little in their order only.
int64_t calls_at_risk(const Setup& setup) {
    FaultFiles files("/image");
    const auto engine = engine_on(files, setup, true);
    train(*engine, 1, kFirstAtRisk - 1);
    const int64_t before = files.calls(FaultCall::any);
    train(*engine, kFirstAtRisk, kFirstAtRisk + 1);
    engine->flush();
    return files.calls(FaultCall::any) - before;
}

// Trains until the power goes after `calls` more calls; returns the last step that the engine calls durable.
int64_t train_until_dark(FaultFiles& files, const Setup& setup, int64_t calls) {
    const auto engine = engine_on(files, setup, true);
    train(*engine, 1, kFirstAtRisk - 1);
    files.cut_power_after(calls);
    try {
        train(*engine, kFirstAtRisk, kFirstAtRisk + 1);
        engine->flush();
    } catch (const MachineError&) {
    }
    return engine->durable_step();
}

void expect_survival(const Setup& setup, const std::vector<std::string>& states, int64_t calls, uint64_t seed) {
    SCOPED_TRACE(fmt::format("{}, power lost after {} calls, seed {}", setup.name(), calls, seed));
    FaultFiles files("/image");
    const int64_t durable = train_until_dark(files, setup, calls);
    const auto found = files.crash(seed);
    const auto engine = engine_on(*found, setup, false);
    const std::string run_state = engine->reopen();
    const auto committed_as = [](int64_t step) { return step == 0 ? "{}" : run_state_of(step); };
    // The next commit may have become durable before anybody said so.
    int64_t step = durable;
    while (run_state != committed_as(step) && step < durable + setup.writeback_steps) ++step;
    ASSERT_EQ(run_state, committed_as(step));
    ASSERT_EQ(engine->durable_step(), step);
    ASSERT_TRUE(state(*engine, *found) == states[static_cast<size_t>(step)]) << "step " << step;
    train(*engine, step + 1, kSteps);
    ASSERT_TRUE(state(*engine, *found) == states.back()) << "from step " << step;
}

class EnginePower : public testing::TestWithParam<Setup> {
  protected:
    EnginePower() { set_log_level(LogLevel::error); }  // not a line for each dead machine

    // At evenly spaced calls of the steps at risk; what was not synced is all lost, or lost, kept or torn by a seed.
    void survive(int64_t points) const {
        const std::vector<std::string> states = states_of(GetParam());
        const int64_t total = calls_at_risk(GetParam());
        for (int64_t point = 0; point < points; ++point) {
            const int64_t calls = point * (total + 1) / points;
            expect_survival(GetParam(), states, calls, point % 3 == 0 ? 0 : static_cast<uint64_t>(point));
            if (testing::Test::HasFailure()) return;
        }
    }
};

TEST_P(EnginePower, IsLostAnywhere) {
    survive(is_second_run() ? 5 : 15);
}

std::vector<Setup> setups(std::vector<Homes> homes) {
    std::vector<Setup> all;
    for (const Homes each : homes) {
        for (const UpdateTime time : {UpdateTime::after_backward, UpdateTime::in_backward, UpdateTime::next_forward})
            all.push_back({each, time});
    }
    return all;
}
std::string name_of(const testing::TestParamInfo<Setup>& info) {
    return info.param.name();
}
const std::vector<Homes> kAllHomes = {Homes::disk, Homes::weights_in_memory, Homes::cached, Homes::mixed};

INSTANTIATE_TEST_SUITE_P(Plans, EnginePower, testing::ValuesIn(setups(kAllHomes)), name_of);

// Methods that go forward only hold every update, and write the weights alone.
const std::vector<Setup> kForwardOnly = {{Homes::disk, UpdateTime::next_forward, "zeroth_order"},
                                         {Homes::weights_in_memory, UpdateTime::next_forward, "zeroth_order"},
                                         {Homes::mixed, UpdateTime::next_forward, "forward_gradient"},
                                         {Homes::disk, UpdateTime::next_forward, "zeroth_order", 2},
                                         {Homes::mixed, UpdateTime::next_forward, "zeroth_order", 2}};
INSTANTIATE_TEST_SUITE_P(ForwardOnly, EnginePower, testing::ValuesIn(kForwardOnly), name_of);

// The calls of a commit are the last ones of a step, or of a flush: each of them.
class EnginePowerInACommit : public EnginePower {};

TEST_P(EnginePowerInACommit, IsLostInEveryCall) {
    const std::vector<std::string> states = states_of(GetParam());
    const int64_t total = calls_at_risk(GetParam());
    for (int64_t calls = total - 4; calls <= total; ++calls) {
        for (const uint64_t seed : {0, 2}) {
            expect_survival(GetParam(), states, calls, seed);
            if (HasFailure()) return;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Plans, EnginePowerInACommit, testing::ValuesIn(setups({Homes::disk})), name_of);
INSTANTIATE_TEST_SUITE_P(ForwardOnly, EnginePowerInACommit, testing::Values(kForwardOnly[0]), name_of);

class SlowEnginePower : public EnginePower {};

TEST_P(SlowEnginePower, IsLostAlmostEverywhere) {
    survive(420);
}

INSTANTIATE_TEST_SUITE_P(Slow, SlowEnginePower, testing::ValuesIn(setups(kAllHomes)), name_of);
INSTANTIATE_TEST_SUITE_P(SlowForwardOnly, SlowEnginePower, testing::ValuesIn(kForwardOnly), name_of);

// What the other tests rely on: of the steps at risk one is clipped, and an update that was guessed is done again
// there.
TEST(EnginePowerSteps, AreClippedOnce) {
    FaultFiles files("/image");
    const auto engine = engine_on(files, {Homes::disk, UpdateTime::in_backward}, true);
    int clipped = 0;
    for (int64_t step = 1; step <= kFirstAtRisk + 1; ++step) {
        const StepReport report = train_on(*engine, batch(step), step, 1e-2);
        EXPECT_EQ(report.redone, report.clip_scale < 1) << "norm " << report.grad_norm;
        if (step >= kFirstAtRisk) clipped += report.redone ? 1 : 0;
    }
    EXPECT_EQ(clipped, 1);
}

}  // namespace
}  // namespace windlass
