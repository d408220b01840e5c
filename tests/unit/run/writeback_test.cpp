// Updates that are written back each so many steps: how often they do, and that nobody finds another state than if they
// always did: evaluations, snapshots, runs that are killed.
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr const char* kWritebackStore = "/image/store.wls";

// Of a model with a tied table: the head fetches it once more.
class WriteBack : public testing::TestWithParam<Plan> {
  protected:
    std::unique_ptr<Engine> engine(int period, const MethodOptions& method = {.weight_decay = 0.1}, bool load = true) {
        EngineOptions options = forward_only_options("zeroth_order", method);
        options.plan = GetParam();
        options.plan.writeback_steps = period;
        options.store_path = kWritebackStore;
        if (load) image_.remove_tree(kWritebackStore);
        return make_engine(image_, golden_.folder, options, load);
    }
    StepReport train(Engine& engine, int64_t step) {
        return train_on(engine, batches_[static_cast<size_t>(step % 2)], step, 1e-2);
    }
    StepReport try_bad_step(Engine& engine, int64_t step) {
        StepInput input = step_input(engine, batches_[0], step, 1e-2);
        input.params.head.loss_scale = std::numeric_limits<double>::infinity();
        const StepReport report = engine.train_step(train_schedule(engine, batches_[0]), input);
        engine.commit(step, run_state_of(step), report);
        return report;
    }
    std::string state(Engine& engine) { return state_bytes(engine, image_, "/image/state.wls"); }
    double loss(Engine& engine) {
        return engine.evaluate(*engine.setup().schedules.find("eval/24"), step_input(engine, batches_[0], 1, 0))
            .loss_sum;
    }

    FaultFiles image_{"/image"};
    const Golden golden_{"gpt2"};
    const std::array<TestBatch, 2> batches_ = batches_of(golden_);
};

// Behind step n the weights at home are those of the last whole period before it.
TEST_P(WriteBack, GoesHomeEachPeriod) {
    const auto engine = this->engine(3);
    std::vector<int64_t> durable;
    for (int64_t step = 1; step <= 8; ++step) {
        train(*engine, step);
        durable.push_back(engine->durable_step());
    }
    EXPECT_EQ(durable, std::vector<int64_t>({0, 0, 0, 3, 3, 3, 6, 6}));
    engine->flush();
    EXPECT_EQ(engine->durable_step(), 8);
    for (int64_t step = 9; step <= 11; ++step) train(*engine, step);
    EXPECT_EQ(engine->durable_step(), 8);
    train(*engine, 12);
    EXPECT_EQ(engine->durable_step(), 11);
}

TEST_P(WriteBack, WritesTheDiskOnlyThen) {
    if (!GetParam().store) GTEST_SKIP() << "nothing is written";
    const auto writes_of = [&](int period) {
        const auto engine = this->engine(period);
        train(*engine, 1);
        const int64_t before = image_.calls(FaultCall::write);
        for (int64_t step = 2; step <= 13; ++step) train(*engine, step);
        return image_.calls(FaultCall::write) - before;
    };
    // Weights are most of it; a commit's own writes depend on what the record before it deferred.
    const auto each = static_cast<double>(writes_of(1));
    EXPECT_NEAR(4 * static_cast<double>(writes_of(4)), each, 0.1 * each);
    EXPECT_NEAR(12 * static_cast<double>(writes_of(12)), each, 0.1 * each);
}

// Whatever is asked for sees all steps, and a step that is not applied counts as none.
TEST_P(WriteBack, ShowsTheSameStateToEverybody) {
    struct Seen {
        std::vector<double> losses;
        std::vector<std::string> states;
        std::vector<std::vector<float>> masters;
        bool operator==(const Seen&) const = default;
    };
    const auto run = [&](int period) {
        const auto engine = this->engine(period);
        Seen seen;
        for (int64_t step = 1; step <= 9; ++step) {
            if (step == 5 || step == 6)
                EXPECT_FALSE(try_bad_step(*engine, step).applied);
            else
                seen.losses.push_back(train(*engine, step).loss_sum);
            if (step == 3) seen.losses.push_back(loss(*engine));
            if (step == 7) seen.states.push_back(state(*engine));
        }
        seen.masters = all_masters(*engine);
        EXPECT_EQ(engine->durable_step(), 9);
        seen.states.push_back(state(*engine));
        return seen;
    };
    const Seen expected = run(1);
    EXPECT_FALSE(expected.states[0] == expected.states[1]);
    for (const int period : {2, 3, 16}) EXPECT_TRUE(run(period) == expected) << period;
}

// Steps that were deferred are told to the engine that goes on: from a log in a run, here from what was reported.
TEST_P(WriteBack, GoesOnFromAStoreThatIsBehind) {
    if (!GetParam().store) GTEST_SKIP() << "there is no store to go on from";
    constexpr MethodOptions kAdam{.weight_decay = 0.1, .moments = NoiseMoments::both, .replay_window = 3};
    std::vector<StepParams> applied;
    std::vector<std::string> states;
    {
        const auto straight = engine(1, kAdam);
        for (int64_t step = 1; step <= 9; ++step) {
            const StepReport report = step == 6 ? try_bad_step(*straight, step) : train(*straight, step);
            if (report.applied) applied.push_back(report.params);
            states.push_back(state(*straight));
        }
    }
    for (const int64_t last : {3, 4, 6, 7}) {  // durable are then 0, 4 and 4 and 4
        auto run = engine(4, kAdam);
        for (int64_t step = 1; step <= last; ++step) step == 6 ? try_bad_step(*run, step) : train(*run, step);
        run = engine(4, kAdam, false);
        run->reopen();
        const int64_t home = run->durable_step();
        EXPECT_EQ(home, last <= 4 ? 0 : 4);
        std::vector<StepParams> recent;
        for (const StepParams& step : applied)
            if (step.step <= last && step.step > home - 2) recent.push_back(step);
        const auto deferred = static_cast<int>(
            std::ranges::count_if(recent, [home](const StepParams& step) { return step.step > home; }));
        run->recall(recent, deferred, last, run_state_of(last));
        for (int64_t step = last + 1; step <= 9; ++step) step == 6 ? try_bad_step(*run, step) : train(*run, step);
        EXPECT_TRUE(state(*run) == states.back()) << last;
        EXPECT_EQ(run->durable_step(), 9);
    }
}

// A step on the disk that was not applied is a step that is over.
TEST_P(WriteBack, RecallsAStepThatWasNotApplied) {
    if (!GetParam().store) GTEST_SKIP() << "there is no store to go on from";
    auto run = engine(4);
    const std::string before = state(*run);
    run = engine(4, {}, false);
    run->reopen();
    run->recall({}, 0, 1, run_state_of(1));
    EXPECT_EQ(run->durable_step(), 1);
    EXPECT_TRUE(state(*run) == before);
}

std::vector<Plan> writeback_plans() {
    std::vector<Plan> plans;
    const std::vector<Plan> all = forward_only_plans(DeviceKind::cpu, tiny_model("gpt2").blocks.size(), 1);
    for (const Plan& plan : all) {
        const bool is_written_back = plan.store || (plan.own_memory() && plan.common.weights == Home::host);
        if (is_written_back && plan.read_ahead == 1) plans.push_back(plan);
    }
    return plans;
}
INSTANTIATE_TEST_SUITE_P(Plans, WriteBack, testing::ValuesIn(writeback_plans()));

}  // namespace
}  // namespace windlass
