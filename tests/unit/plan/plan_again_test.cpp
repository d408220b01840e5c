// A choice that was found before gives its plan again; one that is stale or wrong gives nothing.
#include "plan/plan_again.h"

#include "base/units.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

class PlanAgain : public testing::Test {
  protected:
    Planned found() { return make_plan(model_, recipe_, numerics_, machine_, request_); }
    std::optional<Planned> again(const FoundChoice& choice) {
        return plan_again(model_, recipe_, numerics_, machine_, request_, choice);
    }

    const TrainedModel model_ = tiny_model("llama");
    const Recipe recipe_ = make_recipe("adamw", {});
    const Numerics numerics_ = numerics_of(DType::f32, 2, 32, 4);
    const Machine machine_{.gemm_bf16_flops = 1e12,
                           .gemm_f32_flops = 5e11,
                           .memory_bytes_per_s = 2e10,
                           .disk_read_bytes_per_s = 3e9,
                           .disk_write_bytes_per_s = 1e9};
    PlanRequest request_{.policy = "three_tier",
                         .budgets = {.ram = kGiB, .disk = kGiB, .process = kMiB},
                         .schedules = {train_request(numerics_)}};
};

TEST_F(PlanAgain, IsThePlanThatTheSearchFound) {
    const Planned first = found();
    const std::optional<Planned> second = again({first.plan.policy, first.choice});
    ASSERT_TRUE(second.has_value());
    EXPECT_EQ(second->plan.blocks, first.plan.blocks);
    EXPECT_EQ(second->mean_seconds, first.mean_seconds);
    EXPECT_EQ(second->memory_bytes, first.memory_bytes);
    EXPECT_EQ(second->disk_bytes, first.disk_bytes);
    EXPECT_EQ(second->binding.improvement, first.binding.improvement);
    EXPECT_EQ(second->schedules.schedules.size(), first.schedules.schedules.size());
    EXPECT_EQ(second->evaluations, 0);
}

TEST_F(PlanAgain, IsNothingThatTheSpaceDoesNotHold) {
    const Planned first = found();
    for (size_t knob = 0; knob < kKnobs; ++knob) {
        for (const int value : {-1, 1'000'000}) {
            FoundChoice wrong{first.plan.policy, first.choice};
            wrong.choice[knob] = value;
            EXPECT_FALSE(again(wrong).has_value()) << knob << " " << value;
        }
    }
    EXPECT_FALSE(again({"in_memory", first.choice}).has_value());
    EXPECT_FALSE(again({"", first.choice}).has_value());
}

TEST_F(PlanAgain, IsNothingThatExceedsABudget) {
    const Planned first = found();
    const FoundChoice choice{first.plan.policy, first.choice};
    request_.budgets.ram = first.memory_bytes;
    request_.budgets.disk = first.disk_bytes;
    request_.budgets.step_disk_writes = first.step.demand.disk_write_bytes;
    EXPECT_TRUE(again(choice).has_value());
    for (int64_t Budgets::*const budget : {&Budgets::ram, &Budgets::disk, &Budgets::step_disk_writes}) {
        const PlanRequest enough = request_;
        request_.budgets.*budget -= 1;
        EXPECT_FALSE(again(choice).has_value());
        request_ = enough;
    }
}

// Asked before each evaluation: how often says how long a search goes on.
TEST_F(PlanAgain, AStoppedSearchEvaluatesNothingMore) {
    int asked = 0;
    request_.should_stop = [&] { return ++asked > 3; };
    EXPECT_THROW(found(), PlanStopped);
    EXPECT_EQ(asked, 4);
}

}  // namespace
}  // namespace windlass
