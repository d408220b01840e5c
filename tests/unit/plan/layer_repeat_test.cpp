// A step of more layers, found in the schedule of a shallower model, against the one that is lowered for it.
#include "plan/layer_repeat.h"

#include "plan/alive_bytes.h"
#include "schedule/derive_waits.h"
#include "schedule/machine_profiles.h"
#include "schedule/simulate.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr int kFewLayers = 12, kDeepLayers = 26, kFirst = 5, kCount = 2;

TrainedModel medium_llama(int layers, bool ties_head) {
    return model_of(fmt::format(R"({{"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816,
        "num_hidden_layers": {}, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 16000,
        "max_position_embeddings": 2048, "tie_word_embeddings": {}}})",
                                layers, ties_head));
}

ScheduleSet step_of(int layers, const Plan& plan, bool ties_head) {
    const Recipe recipe = make_recipe("adamw", {});
    const TrainedModel model = stored_as(medium_llama(layers, ties_head), recipe);
    const Numerics numerics = numerics_of(DType::bf16, 2, 512, 3);
    ScheduleSet set = lower_one(model, recipe, numerics, plan, {train_request(numerics)}, train_request(numerics));
    place_buffers(set);
    derive_waits(set, set.schedules[0]);
    return set;
}

LayerTasks layers_of(const ScheduleSet& set) {
    return tasks_of_layers(set.schedules[0], kFirst, kCount);
}

std::optional<LayerRepeat> repeat_of(const ScheduleSet& set) {
    return LayerRepeat::find(set.schedules[0], layers_of(set), (kDeepLayers - kFewLayers) / kCount);
}

std::vector<Plan> plans() {
    std::vector<Plan> plans = plans_on(DeviceKind::fake);
    for (Plan& plan : plans) plan.group_chunks = 4;
    return plans;
}

class LayerRepeats : public testing::TestWithParam<bool> {};  // whether the head is the embedding

TEST_P(LayerRepeats, LayersTakeWhatADeeperModelTakesMore) {
    for (const Plan& plan : plans()) {
        SCOPED_TRACE(describe(plan));
        const ScheduleSet few = step_of(kFewLayers, plan, GetParam()),
                          more = step_of(kFewLayers + kCount, plan, GetParam());
        const Schedule &schedule = few.schedules[0], &deeper = more.schedules[0];
        const LayerTasks layers = layers_of(few);
        const Demand got = demand_of(schedule, layers), want = total_demand(deeper) - total_demand(schedule);
        EXPECT_NEAR(got.flops, want.flops, 1e-9 * want.flops);
        EXPECT_EQ(got.memory_bytes, want.memory_bytes);
        EXPECT_EQ(got.up_bytes, want.up_bytes);
        EXPECT_EQ(got.down_bytes, want.down_bytes);
        EXPECT_EQ(got.disk_read_bytes, want.disk_read_bytes);
        EXPECT_EQ(got.disk_write_bytes, want.disk_write_bytes);
        EXPECT_EQ(spilled_bytes(schedule, layers), deeper.activation_file_bytes - schedule.activation_file_bytes);
    }
}

TEST_P(LayerRepeats, HasAsManyBytesAliveAsADeeperModel) {
    for (const Plan& plan : plans()) {
        SCOPED_TRACE(describe(plan));
        const ScheduleSet few = step_of(kFewLayers, plan, GetParam()), deep = step_of(kDeepLayers, plan, GetParam());
        const std::optional<LayerRepeat> repeat = repeat_of(few);
        ASSERT_TRUE(repeat);
        EXPECT_EQ(repeat->alive_bytes(few, few.schedules[0]), alive_bytes(deep, deep.schedules[0]));
    }
}

TEST_P(LayerRepeats, DoesWhatADeeperModelDoesInItsTime) {
    const Machine machine = find_machine(real_files(), "rtx4090-desktop");
    for (const Plan& plan : plans()) {
        if (!plan.own_memory()) continue;
        SCOPED_TRACE(describe(plan));
        ScheduleSet few = step_of(kFewLayers, plan, GetParam());
        const ScheduleSet deep = step_of(kDeepLayers, plan, GetParam());
        const std::optional<LayerRepeat> repeat = repeat_of(few);
        ASSERT_TRUE(repeat);
        Schedule& schedule = few.schedules[0];
        schedule.tasks = repeat->tasks(schedule);
        const std::vector<Task>& want = deep.schedules[0].tasks;
        ASSERT_EQ(schedule.tasks.size(), want.size());
        for (size_t index = 0; index < want.size(); ++index) {
            EXPECT_EQ(schedule.tasks[index].lane, want[index].lane) << index;
            EXPECT_EQ(schedule.tasks[index].verb, want[index].verb) << index;
        }
        const double seconds = simulate(deep.schedules[0], machine).seconds;
        EXPECT_NEAR(simulate(schedule, machine).seconds, seconds, 0.001 * seconds);
    }
}

INSTANTIATE_TEST_SUITE_P(Tied, LayerRepeats, testing::Bool(), testing::PrintToStringParamName());

// Each layer's update is done when the pass has long been at others: no range of it is what those layers do.
TEST(LayerRepeat, IsNotFoundWhereAPassNeverComesToRest) {
    const Plan plan{.device = {.kind = DeviceKind::fake, .own_memory = true},
                    .host_threads = 1,
                    .store = true,
                    .group_chunks = 64,
                    .update_ahead = kFewLayers,
                    .common = {.weights = Home::host,
                               .state = Home::disk,
                               .gradients = Home::host,
                               .update = UpdateTime::in_backward,
                               .recompute = true}};
    EXPECT_FALSE(repeat_of(step_of(kFewLayers, plan, false)));
}

}  // namespace
}  // namespace windlass
