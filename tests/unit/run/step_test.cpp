// Steps that do not end as steps do: numbers that are not finite, and requests to stop.
#include <atomic>
#include <chrono>
#include <thread>

#include "format/model_folder.h"
#include "tests/unit/model/model_fixtures.h"
#include "tests/unit/run/engine_fixture.h"
#include "tests/unit/schedule/param_tasks.h"

namespace windlass {
namespace {

const Golden& stepped_golden() {
    static const Golden read("llama3");
    return read;
}
TestBatch step_batch(const char* suffix) {
    return {stepped_golden().ids(fmt::format("ids{}", suffix)), stepped_golden().ids(fmt::format("targets{}", suffix)),
            2};
}

// Everything in the host's memory, beside a device with its own, whose lanes overtake each other.
Plan stream_plan(UpdateTime update) {
    const BlockPlan blocks{.weights = Home::host,
                           .state = Home::host,
                           .gradients = Home::host,
                           .block_input = Home::host,
                           .update = update};
    return {.policy = "stream", .device = {.own_memory = true}, .host_threads = 1, .common = blocks};
}
Plan guessing_plan() {
    return {.policy = "guess", .common = {.update = UpdateTime::in_backward}};
}

class Steps : public testing::TestWithParam<Plan> {
  protected:
    EngineOptions options(std::string_view store) {
        real_files().remove_tree(folder_ / store);
        return {.plan = GetParam(), .store_path = folder_ / store};
    }
    bool on_disk() const { return GetParam().store; }
    std::string state(Engine& engine) { return state_bytes(engine, real_files(), folder_ / "state.wls"); }

    TempFolder folder_;
    const TestBatch a_ = step_batch(""), b_ = step_batch("_b");
};

// A gradient that overflows: nothing is applied, the state stays as it is to the bit, and training can go on.
TEST_P(Steps, AGradientThatIsNotFiniteChangesNothing) {
    const auto straight = make_engine(real_files(), stepped_golden().folder, options("straight.wls"));
    train_on(*straight, a_, 1, 1e-2);
    const std::string after_one = state(*straight);
    train_on(*straight, b_, 2, 1e-2);
    const std::string after_two = state(*straight);

    const auto engine = make_engine(real_files(), stepped_golden().folder, options("bad.wls"));
    train_on(*engine, a_, 1, 1e-2);
    for (int64_t bad = 0; bad < 2; ++bad) {
        StepInput input = step_input(*engine, b_, 2, 1e-2);
        input.params.head.loss_scale = std::numeric_limits<double>::infinity();
        const StepReport report = engine->train_step(train_schedule(*engine, b_), input);
        EXPECT_FALSE(report.applied);
        EXPECT_FALSE(std::isfinite(report.grad_norm));
        EXPECT_TRUE(std::isfinite(report.loss_sum));
        engine->commit(1, run_state_of(1), report);
        EXPECT_TRUE(state(*engine) == after_one);
    }
    EXPECT_TRUE(train_on(*engine, b_, 2, 1e-2).applied);
    EXPECT_TRUE(state(*engine) == after_two);
}

// The stepped_golden model with weights whose products are too large for a float; loading refuses weights that are.
std::string overflowing_model(const TempFolder& folder) {
    const ModelFolder healthy = ModelFolder::open(real_files(), stepped_golden().folder);
    std::vector<TestTensor> tensors = read_tensors(healthy);
    for (TestTensor& tensor : tensors) {
        if (tensor.spec.name != "model.layers.1.mlp.down_proj.weight") continue;
        const std::vector<float> huge(tensor.bytes.size() / sizeof(float), 3e38f);
        std::memcpy(tensor.bytes.data(), huge.data(), tensor.bytes.size());
    }
    write_folder(folder / "model", golden_config("llama3"), tensors);
    return folder / "model";
}

TEST_P(Steps, ALossThatIsNotFiniteChangesNothing) {
    const auto engine = make_engine(real_files(), overflowing_model(folder_), options("bad.wls"));
    const std::string before = state(*engine);
    for (int64_t step = 1; step <= 2; ++step) {
        const StepReport report = train_on(*engine, a_, step, 1e-2);
        EXPECT_FALSE(report.applied);
        EXPECT_FALSE(std::isfinite(report.loss_sum));
        EXPECT_TRUE(state(*engine) == before);
    }
}

// A method whose updates ask their engine to stop: at the n-th, or, with 0, before the step begins.
struct StepStopper {
    static inline std::atomic<Engine*> engine = nullptr;
    static inline std::atomic<int> countdown = 0;
    static inline ParamKernel kernel;
    static inline ParamCell cell = nullptr;
    static void update(const ParamCall& call, Stream& stream) {
        if (--countdown == 0) engine.load()->request_stop();
        cell(call, stream);
    }
};

std::unique_ptr<Engine> stoppable(const EngineOptions& options, bool load) {
    auto engine = make_engine(real_files(), stepped_golden().folder, options, false);
    EngineSetup setup = engine->setup();
    StepStopper::cell = replace_cell(setup.schedules, is_update, StepStopper::kernel, StepStopper::update);
    engine = std::make_unique<Engine>(real_files(), std::move(setup));
    ModelFolder folder = ModelFolder::open(real_files(), stepped_golden().folder);
    if (load) engine->load(folder, "{}");
    StepStopper::engine = engine.get();
    return engine;
}

// A stop leaves the state of the last committed step, or of this one: never something between.
TEST_P(Steps, AStopAppliesTheWholeStepOrNothing) {
    const auto straight = make_engine(real_files(), stepped_golden().folder, options("straight.wls"));
    const size_t params = straight->setup().model.params.size();
    const std::string before = state(*straight);
    train_on(*straight, a_, 1, 1e-2);
    const std::string after = state(*straight);
    for (const size_t nth : {size_t{0}, size_t{1}, params / 2, params}) {
        const EngineOptions fresh = options("stopped.wls");
        auto engine = stoppable(fresh, true);
        StepStopper::countdown = static_cast<int>(nth);
        if (nth == 0) engine->request_stop();
        bool applied = true;
        try {
            train_on(*engine, a_, 1, 1e-2);
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ExitCode::interrupted);
            applied = false;
        }
        EXPECT_EQ(applied, nth > 0 && !on_disk()) << nth;
        if (on_disk()) {
            engine.reset();
            engine = stoppable(fresh, false);
            engine->reopen();
        }
        EXPECT_TRUE(state(*engine) == (applied ? after : before)) << nth;
    }
}

INSTANTIATE_TEST_SUITE_P(Plans, Steps,
                         testing::Values(memory_plan(), guessing_plan(), stream_plan(UpdateTime::after_backward),
                                         stream_plan(UpdateTime::in_backward), disk_plan(Home::device, Home::device),
                                         disk_plan(Home::disk, Home::disk)));

// However far the lanes are when the request comes.
TEST(StepsInMemory, AStopAtAnyTimeAppliesTheWholeStepOrNothing) {
    const TempFolder folder;
    const TestBatch a = step_batch("");
    const auto state = [&](Engine& engine) { return state_bytes(engine, real_files(), folder / "state.wls"); };
    for (const UpdateTime update : {UpdateTime::after_backward, UpdateTime::in_backward}) {
        EngineOptions options{.plan = stream_plan(update)};
        const auto straight = make_engine(real_files(), stepped_golden().folder, options);
        const std::string before = state(*straight);
        train_on(*straight, a, 1, 1e-2);
        const std::string after = state(*straight);
        constexpr int kTrials = 24;
        int applied = 0;
        for (int trial = 0; trial < kTrials; ++trial) {
            options.emulation = {.jitter_seed = static_cast<uint64_t>(trial), .jitter_ns = 100'000};
            const auto engine = make_engine(real_files(), stepped_golden().folder, options);
            std::atomic<bool> over = false;
            // Each trial asks a little later.
            std::jthread asker([&] {
                for (int wait = 0; wait < trial && !over; ++wait)
                    std::this_thread::sleep_for(std::chrono::microseconds(150));
                engine->request_stop();
            });
            bool whole = true;
            try {
                train_on(*engine, a, 1, 1e-2);
            } catch (const Error& error) {
                EXPECT_EQ(error.code(), ExitCode::interrupted);
                whole = false;
            }
            over = true;
            applied += whole ? 1 : 0;
            EXPECT_TRUE(state(*engine) == (whole ? after : before)) << trial;
        }
        EXPECT_LT(applied, kTrials);  // the first is asked before the step begins
    }
}

TEST(Clipping, ScalesByTheExactNorm) {
    const TestBatch a = step_batch("");
    for (const double limit : {0.0, 1e-3, 1e6}) {
        EngineOptions options{.method = {.max_grad_norm = limit}};
        const StepReport report = train_on(*make_engine(real_files(), stepped_golden().folder, options), a, 1, 1e-3);
        const double expected = limit > 0 ? std::min(1.0, limit / (report.grad_norm + 1e-6)) : 1.0;
        EXPECT_EQ(report.clip_scale, expected);
    }
}

}  // namespace
}  // namespace windlass
