// Steps of forward-only methods that change nothing: at a rate of zero, of frozen parameters, and where numbers are not
// finite.
#include <atomic>
#include <cmath>
#include <limits>

#include "perturb/noise.h"
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/schedule/param_tasks.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr const char* kMethods[] = {"zeroth_order", "forward_gradient"};

// Zeros of either sign and numbers below the normal ones among the weights: what rounding likes to change.
void make_awkward(const std::string&, std::span<float> values) {
    constexpr float kAwkward[] = {0.0f, -0.0f, 6e-8f, -6e-8f, 1e-39f, -1e-39f};
    for (size_t i = 0; i < values.size(); i += 5) values[i] = kAwkward[i / 5 % std::size(kAwkward)];
}

class ZeroRate : public testing::TestWithParam<std::tuple<const char*, DType>> {
  protected:
    void expect_untouched(int64_t steps, int directions) {
        const auto& [method, type] = GetParam();
        const TempFolder folder;
        const Golden golden("gpt2");
        EngineOptions options = forward_only_options(method, {.directions = directions});
        options.compute = type == DType::f32 ? DType::f32 : DType::bf16;
        FaultFiles image("/image");
        const auto engine = make_engine(image, write_model(golden, type, folder, make_awkward), options);
        const std::string before = state_bytes(*engine, image, "/image/state.wls");
        const std::array<TestBatch, 2> batches = batches_of(golden);
        for (int64_t step = 1; step <= steps; ++step)
            ASSERT_TRUE(train_on(*engine, batches[static_cast<size_t>(step % 2)], step, 0).applied);
        EXPECT_TRUE(state_bytes(*engine, image, "/image/state.wls") == before);
        train_on(*engine, batches[0], steps + 1, 1e-3);
        EXPECT_FALSE(state_bytes(*engine, image, "/image/state.wls") == before);
    }
};

TEST_P(ZeroRate, LeavesEveryBitOfTheWeights) {
    expect_untouched(100, 2);
}

class SlowZeroRate : public ZeroRate {};

TEST_P(SlowZeroRate, LeavesEveryBitOfTheWeights) {
    expect_untouched(2'500, 4);
}

std::string name_of(const testing::TestParamInfo<std::tuple<const char*, DType>>& info) {
    return fmt::format("{}_{}", std::get<0>(info.param), dtype_name(std::get<1>(info.param)));
}
const auto kEveryWay =
    testing::Combine(testing::ValuesIn(kMethods), testing::Values(DType::f32, DType::bf16, DType::f16));
INSTANTIATE_TEST_SUITE_P(Types, ZeroRate, kEveryWay, name_of);
INSTANTIATE_TEST_SUITE_P(Slow, SlowZeroRate, kEveryWay, name_of);

class ForwardOnlySteps : public testing::TestWithParam<std::tuple<const char*, NoiseKind>> {
  protected:
    EngineOptions options(const Plan& plan, const std::string& store) const {
        const auto& [method, noise] = GetParam();
        EngineOptions made =
            forward_only_options(method, {.weight_decay = 0.1, .directions = 2, .noise = noise, .noise_window = 2});
        made.plan = plan;
        made.store_path = "/image/" + store;
        return made;
    }
    std::string state(Engine& engine) { return state_bytes(engine, image_, "/image/state.wls"); }
    // In memory, streamed from the disk, and on a device of its own.
    static std::vector<Plan> plans() {
        std::vector<Plan> plans;
        for (const bool own_memory : {false, true}) {
            for (const bool store : {false, true}) {
                const Home home = store ? Home::disk : own_memory ? Home::host : Home::device;
                plans.push_back({.policy = "test",
                                 .device = {.own_memory = own_memory},
                                 .store = store,
                                 .common = {.weights = home, .state = home, .update = UpdateTime::next_forward}});
            }
        }
        return plans;
    }

    FaultFiles image_{"/image"};
    const Golden golden_{"gpt2"};
    const std::array<TestBatch, 2> batches_ = batches_of(golden_);
};

TEST_P(ForwardOnlySteps, LeaveFrozenParametersAlone) {
    const auto trains = [](const ParamSpec& param) { return param.name.find("mlp") != std::string::npos; };
    std::vector<std::vector<std::vector<float>>> masters;
    for (const Plan& plan : plans()) {
        EngineOptions some = options(plan, fmt::format("frozen{}.wls", masters.size()));
        some.trains = trains;
        const auto engine = make_engine(image_, golden_.folder, some);
        const auto before = all_masters(*engine);
        for (int64_t step = 1; step <= 3; ++step) train_on(*engine, batches_[0], step, 1e-2);
        masters.push_back(all_masters(*engine));
        const TrainedModel& model = engine->setup().model;
        for (size_t param = 0; param < before.size(); ++param)
            EXPECT_EQ(masters.back()[param] == before[param], !trains(model.params[param])) << model.params[param].name;
        EXPECT_TRUE(masters.back() == masters.front()) << describe(plan);
    }
}

// The step before is whole, in memory and on disk; of this one there is nothing.
TEST_P(ForwardOnlySteps, AnOverflowLandsWhatWasHeldAndNothingElse) {
    for (const Plan& plan : plans()) {
        SCOPED_TRACE(describe(plan));
        const auto straight = make_engine(image_, golden_.folder, options(plan, "straight.wls"));
        train_on(*straight, batches_[0], 1, 1e-2);
        const std::string after_one = state(*straight);
        train_on(*straight, batches_[1], 2, 1e-2);
        const std::string after_two = state(*straight);

        const auto engine = make_engine(image_, golden_.folder, options(plan, "bad.wls"));
        const std::string before = state(*engine);
        EXPECT_FALSE(after_one == before);
        train_on(*engine, batches_[0], 1, 1e-2);
        EXPECT_EQ(engine->durable_step(), 0);
        for (const double scale : {std::numeric_limits<double>::infinity(), 1e300}) {
            StepInput input = step_input(*engine, batches_[1], 2, 1e-2);
            input.params.head.loss_scale = scale;
            const StepReport report = engine->train_step(train_schedule(*engine, batches_[1]), input);
            EXPECT_FALSE(report.applied);
            EXPECT_EQ(engine->durable_step(), 1);
            engine->commit(1, run_state_of(1), report);
            EXPECT_TRUE(state(*engine) == after_one);
        }
        EXPECT_TRUE(train_on(*engine, batches_[1], 2, 1e-2).applied);
        EXPECT_TRUE(state(*engine) == after_two);
        EXPECT_EQ(engine->durable_step(), 2);
    }
}

// Weights whose products are too large for a float; loading refuses weights that are.
TEST_P(ForwardOnlySteps, ALossThatIsNotFiniteChangesNothing) {
    const TempFolder folder;
    const std::string model = write_model(golden_, DType::f32, folder, [](const std::string& name, auto values) {
        if (name == "transformer.h.1.mlp.c_proj.weight") std::ranges::fill(values, 3e38f);
    });
    for (const Plan& plan : plans()) {
        const auto engine = make_engine(image_, model, options(plan, "bad.wls"));
        const std::string before = state(*engine);
        for (int64_t step = 1; step <= 2; ++step) {
            const StepReport report = train_on(*engine, batches_[0], step, 1e-2);
            EXPECT_FALSE(report.applied);
            EXPECT_FALSE(std::isfinite(report.loss_sum));
            EXPECT_TRUE(state(*engine) == before) << describe(plan);
        }
    }
}

// A method whose arrivals ask their engine to stop: at the n-th, or, with 0, before the step begins.
struct Stopper {
    static inline std::atomic<Engine*> engine = nullptr;
    static inline std::atomic<int> countdown = 0;
    static inline ParamKernel kernel;
    static inline ParamCell cell = nullptr;
    static void arrive(const ParamCall& call, Stream& stream) {
        if (--countdown == 0) engine.load()->request_stop();
        cell(call, stream);
    }
};

std::unique_ptr<Engine> stoppable(FileSystem& files, const std::string& model, const EngineOptions& options,
                                  bool load) {
    EngineSetup setup = make_engine(files, model, options, false)->setup();
    Stopper::cell = replace_cell(setup.schedules, is_arrival, Stopper::kernel, Stopper::arrive);
    auto engine = std::make_unique<Engine>(files, std::move(setup));
    ModelFolder folder = ModelFolder::open(real_files(), model);
    if (load) engine->load(folder, "{}");
    Stopper::engine = engine.get();
    return engine;
}

// The step is trained, or refused with what was asked of the engine.
bool is_trained(Engine& engine, const TestBatch& batch, int64_t step) {
    try {
        train_on(engine, batch, step, 1e-2);
        return true;
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::interrupted);
        return false;
    }
}

// The update that was deferred is there whole, or, where it was to be found on disk, not at all; of the step there is
// nothing, or, in memory, where it may be over before the update has landed, all.
TEST_P(ForwardOnlySteps, AStopLeavesTheStepBefore) {
    for (const Plan& plan : plans()) {
        SCOPED_TRACE(describe(plan));
        const auto straight = make_engine(image_, golden_.folder, options(plan, "straight.wls"));
        std::vector<std::string> after = {state(*straight)};
        for (int64_t step = 1; step <= 2; ++step) {
            train_on(*straight, batches_[static_cast<size_t>(step - 1)], step, 1e-2);
            after.push_back(state(*straight));
        }
        const int params = static_cast<int>(straight->setup().model.params.size());
        for (const int nth : {0, 1, params / 2, params}) {
            image_.remove_tree("/image/stopped.wls");
            auto engine = stoppable(image_, golden_.folder, options(plan, "stopped.wls"), true);
            Stopper::countdown = 0;
            train_on(*engine, batches_[0], 1, 1e-2);
            Stopper::countdown = nth;
            if (nth == 0) engine->request_stop();
            const bool trained = is_trained(*engine, batches_[1], 2);
            EXPECT_FALSE(trained && plan.store) << nth;  // memory that is changing is changed to the end
            if (plan.store) {
                engine.reset();
                engine = stoppable(image_, golden_.folder, options(plan, "stopped.wls"), false);
                const std::string run_state = engine->reopen();
                EXPECT_EQ(run_state, engine->durable_step() == 1 ? run_state_of(1) : "{}");
                EXPECT_LE(engine->durable_step(), 1);
            } else {
                EXPECT_EQ(engine->durable_step(), 1);
            }
            const int64_t found = trained ? 2 : engine->durable_step();
            EXPECT_TRUE(state(*engine) == after[static_cast<size_t>(found)]) << nth;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Methods, ForwardOnlySteps,
                         testing::Combine(testing::ValuesIn(kMethods),
                                          testing::Values(NoiseKind::gaussian, NoiseKind::low_rank)),
                         [](const auto& info) {
                             return fmt::format("{}_{}", std::get<0>(info.param),
                                                noise_kind_name(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace windlass
