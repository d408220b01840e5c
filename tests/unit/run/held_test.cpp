// Updates that are deferred where there is no store: whoever looks at the state from outside does them first.
#include "tests/unit/run/engine_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr int64_t kLast = 3;  // its update is deferred when somebody looks

class DeferredInMemory : public testing::TestWithParam<Plan> {
  protected:
    DeferredInMemory()
        : golden_("gpt2"),  // a tied table: of head and embedding one is deferred, the other may be speculative
          a_(golden_.ids("ids"), golden_.ids("targets"), 2),
          b_(golden_.ids("ids_b"), golden_.ids("targets_b"), 2),
          expected_(trained(memory_plan())),
          deferred_(trained(GetParam())) {}

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
    std::unique_ptr<Engine> expected_, deferred_;
};

TEST_P(DeferredInMemory, TheLastStepIsNotDurableBeforeAFlush) {
    EXPECT_EQ(deferred_->durable_step(), kLast - 1);
    deferred_->flush();
    EXPECT_EQ(deferred_->durable_step(), kLast);
    deferred_->flush();  // there is nothing left
    EXPECT_EQ(deferred_->durable_step(), kLast);
    EXPECT_TRUE(state(*deferred_) == state(*expected_));
}

TEST_P(DeferredInMemory, AnEvaluationSeesIt) {
    EXPECT_EQ(token_losses(*deferred_), token_losses(*expected_));
    EXPECT_EQ(deferred_->durable_step(), kLast);
}

TEST_P(DeferredInMemory, ASnapshotHoldsIt) {
    EXPECT_TRUE(state(*deferred_) == state(*expected_));
}

TEST_P(DeferredInMemory, MastersAreThoseBehindIt) {
    EXPECT_EQ(all_masters(*deferred_), all_masters(*expected_));
}

TEST_P(DeferredInMemory, TrainingGoesOnBehindAFlush) {
    deferred_->flush();
    for (Engine* engine : {deferred_.get(), expected_.get()}) train_on(*engine, b_, kLast + 1, 1e-2);
    EXPECT_EQ(deferred_->durable_step(), kLast);
    EXPECT_TRUE(state(*deferred_) == state(*expected_));
}

Plan held_plan(bool own_memory, MicroOrder order) {
    const Home home = own_memory ? Home::host : Home::device;
    return {.policy = "deferred",
            .device = {.own_memory = own_memory},
            .host_threads = own_memory ? 1 : 0,
            .order = order,
            .common = {.weights = home, .state = home, .gradients = home, .update = UpdateTime::next_forward}};
}

// The same where other blocks' updates are speculative.
Plan partly_held_plan(bool own_memory) {
    Plan plan = mixed_plan(held_plan(own_memory, MicroOrder::layer_first), tiny_model("gpt2").blocks.size());
    EXPECT_TRUE(plan.any(UpdateTime::in_backward));
    return plan;
}

INSTANTIATE_TEST_SUITE_P(Plans, DeferredInMemory,
                         testing::Values(held_plan(false, MicroOrder::micro_batch_first),
                                         held_plan(false, MicroOrder::layer_first),
                                         held_plan(true, MicroOrder::layer_first), partly_held_plan(false),
                                         partly_held_plan(true)));

}  // namespace
}  // namespace windlass
