// Updates that are held where there is no store: whoever looks at the state from outside does them first.
#include "tests/unit/run/engine_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr int64_t kLast = 3;  // its update is held when somebody looks

class HeldInMemory : public testing::TestWithParam<Plan> {
  protected:
    HeldInMemory()
        : golden_("gpt2"),  // a tied table: of head and embedding one is held, the other may be guessed
          a_(golden_.ids("ids"), golden_.ids("targets"), 2),
          b_(golden_.ids("ids_b"), golden_.ids("targets_b"), 2),
          expected_(trained(memory_plan())),
          held_(trained(GetParam())) {}

    std::unique_ptr<Engine> trained(const Plan& plan) const {
        auto engine = make_engine(real_files(), golden_.folder, {.plan = plan, .method = {.max_grad_norm = 2.9}});
        for (int64_t step = 1; step <= kLast; ++step) train_on(*engine, step % 2 == 1 ? a_ : b_, step, 1e-2);
        return engine;
    }
    std::string state(Engine& engine) const { return state_bytes(engine, real_files(), folder_ / "state.wls"); }
    std::vector<double> token_losses(Engine& engine) const {
        return engine.evaluate(*engine.setup().schedules.find("eval/24"), step_input(engine, b_, 1, 0), true)
            .token_losses;
    }

    TempFolder folder_;
    Golden golden_;
    TestBatch a_, b_;
    std::unique_ptr<Engine> expected_, held_;
};

TEST_P(HeldInMemory, TheLastStepIsNotDurableBeforeAFlush) {
    EXPECT_EQ(held_->durable_step(), kLast - 1);
    held_->flush();
    EXPECT_EQ(held_->durable_step(), kLast);
    held_->flush();  // there is nothing left
    EXPECT_EQ(held_->durable_step(), kLast);
    EXPECT_TRUE(state(*held_) == state(*expected_));
}

TEST_P(HeldInMemory, AnEvaluationSeesIt) {
    EXPECT_EQ(token_losses(*held_), token_losses(*expected_));
    EXPECT_EQ(held_->durable_step(), kLast);
}

TEST_P(HeldInMemory, ASnapshotHoldsIt) {
    EXPECT_TRUE(state(*held_) == state(*expected_));
}

TEST_P(HeldInMemory, MastersAreThoseBehindIt) {
    EXPECT_EQ(all_masters(*held_), all_masters(*expected_));
}

TEST_P(HeldInMemory, TrainingGoesOnBehindAFlush) {
    held_->flush();
    for (Engine* engine : {held_.get(), expected_.get()}) train_on(*engine, b_, kLast + 1, 1e-2);
    EXPECT_EQ(held_->durable_step(), kLast);
    EXPECT_TRUE(state(*held_) == state(*expected_));
}

Plan held_plan(bool own_memory, MicroOrder order) {
    const Home home = own_memory ? Home::host : Home::device;
    return {.policy = "held",
            .device = {.own_memory = own_memory},
            .host_threads = own_memory ? 1 : 0,
            .order = order,
            .common = {.weights = home, .state = home, .gradients = home, .update = UpdateTime::next_forward}};
}

// The same where other blocks' updates are guessed.
Plan partly_held_plan(bool own_memory) {
    Plan plan = mixed_plan(held_plan(own_memory, MicroOrder::vertical), tiny_model("gpt2").blocks.size());
    EXPECT_TRUE(plan.any(UpdateTime::in_backward));
    return plan;
}

INSTANTIATE_TEST_SUITE_P(Plans, HeldInMemory,
                         testing::Values(held_plan(false, MicroOrder::horizontal),
                                         held_plan(false, MicroOrder::vertical), held_plan(true, MicroOrder::vertical),
                                         partly_held_plan(false), partly_held_plan(true)));

}  // namespace
}  // namespace windlass
