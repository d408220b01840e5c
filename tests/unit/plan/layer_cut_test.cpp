// A step of fewer layers, found in the schedule of a deeper model, against the one that is lowered for it.
#include "plan/layer_cut.h"

#include "schedule/derive_waits.h"
#include "schedule/machine_profiles.h"
#include "schedule/simulate.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr int kDeepLayers = 12, kFewLayers = 10, kFirst = 6;

TrainedModel medium_llama(int layers) {
    return model_of(fmt::format(R"({{"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816,
        "num_hidden_layers": {}, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 16000,
        "max_position_embeddings": 2048, "tie_word_embeddings": false}})",
                                layers));
}

ScheduleSet step_of(int layers, const Plan& plan, const Recipe& recipe) {
    const TrainedModel model = stored_as(medium_llama(layers), recipe);
    const Numerics numerics = numerics_of(DType::bf16, 2, 512, 3);
    ScheduleSet set = lower_one(model, recipe, numerics, plan, {train_request(numerics)}, train_request(numerics));
    place_buffers(set);
    derive_waits(set, set.schedules[0]);
    return set;
}

LayerCut cut_of(const ScheduleSet& set, const Recipe& recipe) {
    return cut_layers(set, set.schedules[0], stored_as(medium_llama(kDeepLayers), recipe), kFirst,
                      kDeepLayers - kFewLayers);
}

std::vector<Plan> plans() {
    std::vector<Plan> plans = plans_on(DeviceKind::fake);
    for (Plan& plan : plans) plan.group_chunks = 4;
    return plans;
}

TEST(LayerCut, LeavesWhatAShallowerModelTakes) {
    const Recipe recipe = make_recipe("adamw", {});
    for (const Plan& plan : plans()) {
        SCOPED_TRACE(describe(plan));
        const ScheduleSet deep = step_of(kDeepLayers, plan, recipe), few = step_of(kFewLayers, plan, recipe);
        const Schedule &schedule = deep.schedules[0], &shallower = few.schedules[0];
        const LayerCut cut = cut_of(deep, recipe);
        const Demand got = total_demand(schedule) - demand_of(schedule, cut), want = total_demand(shallower);
        EXPECT_NEAR(got.flops, want.flops, 1e-9 * want.flops);
        EXPECT_EQ(got.memory_bytes, want.memory_bytes);
        EXPECT_EQ(got.up_bytes, want.up_bytes);
        EXPECT_EQ(got.down_bytes, want.down_bytes);
        EXPECT_EQ(got.disk_read_bytes, want.disk_read_bytes);
        EXPECT_EQ(got.disk_write_bytes, want.disk_write_bytes);
        EXPECT_EQ(schedule.activation_file_bytes - spilled_bytes(schedule, cut), shallower.activation_file_bytes);
        EXPECT_EQ(alive_bytes(deep, schedule, cut), alive_bytes(few, shallower));
    }
}

TEST(LayerCut, TakesAsLongAsAShallowerModel) {
    const Machine machine = find_machine(real_files(), "rtx4090-desktop");
    const Recipe recipe = make_recipe("adamw", {});
    int found = 0;
    for (const Plan& plan : plans()) {
        if (!plan.own_memory()) continue;
        ScheduleSet deep = step_of(kDeepLayers, plan, recipe);
        const ScheduleSet few = step_of(kFewLayers, plan, recipe);
        Schedule& schedule = deep.schedules[0];
        std::vector<Task> tasks = tasks_without(schedule, cut_of(deep, recipe));
        if (tasks.empty()) continue;
        ++found;
        ASSERT_EQ(tasks.size(), few.schedules[0].tasks.size()) << describe(plan);
        schedule.tasks = std::move(tasks);
        const double got = simulate(schedule, machine).seconds, want = simulate(few.schedules[0], machine).seconds;
        EXPECT_NEAR(got, want, 0.001 * want) << describe(plan);
    }
    EXPECT_GT(found, 20);
}

// Each layer's update is done when the pass has long been at others: no range of it is what those layers do.
TEST(LayerCut, IsNotFoundWhereAPassNeverComesToRest) {
    const Plan plan{.device = {.kind = DeviceKind::fake, .own_memory = true},
                    .host_threads = 1,
                    .store = true,
                    .group_chunks = 64,
                    .update_ahead = kDeepLayers,
                    .common = {.weights = Home::host,
                               .state = Home::disk,
                               .gradients = Home::host,
                               .update = UpdateTime::in_backward,
                               .recompute = true}};
    const Recipe recipe = make_recipe("adamw", {});
    const ScheduleSet deep = step_of(kDeepLayers, plan, recipe);
    EXPECT_TRUE(tasks_without(deep.schedules[0], cut_of(deep, recipe)).empty());
}

}  // namespace
}  // namespace windlass
