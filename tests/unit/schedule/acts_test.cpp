// Acts are what a recipe lists, and nothing else: each one once for each element, in the list's order, on the slots
// that its record names.
#include <map>
#include <set>

#include "tests/unit/schedule/param_tasks.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

Numerics narrow_numerics(const Recipe& recipe) {
    Numerics numerics = numerics_of(DType::bf16, 1, 8, 2);
    if (!recipe.uses_gradients_at_once() && recipe.runs(PassKind::backward))
        numerics.gradient_format = GradientFormat::bf16;
    return numerics;
}

// The kernel of a training step that keeps what a guess overwrites, or takes it back, is the plan's, not the recipe's.
bool is_of_recipe(const ParamTask& task) {
    return !task.uses(ParamSlot::kept);
}

class Acts : public testing::TestWithParam<const Method*> {
  protected:
    void for_each_plan(const std::function<void(const Schedule& step)>& body) const {
        for (const Plan& plan : plans_for(recipe_, model_, DeviceKind::fake)) {
            SCOPED_TRACE(describe(plan));
            body(checked(model_, recipe_, narrow_numerics(recipe_), plan).schedules[0]);
            if (HasFailure()) return;
        }
    }
    const Recipe recipe_ = GetParam()->recipe({});
    const TrainedModel model_ = stored_as(tiny_model("gpt2"), recipe_);
};

TEST_P(Acts, AreDoneOnceToEveryElement) {
    for_each_plan([&](const Schedule& step) {
        for (const Act& act : recipe_.acts) {
            if (act.at == Stage::on_arrival) continue;
            std::vector<int64_t> elements(model_.params.size());
            for (const ParamTask& task : step.params) {
                for (const ParamChunk& chunk : task.chunks)
                    if (task.kernel == act.kernel) elements[at(chunk.param)] += chunk.count;
            }
            const auto times = std::ranges::count(recipe_.acts, act.kernel, &Act::kernel);
            ASSERT_EQ(times, 1) << act.kernel->name << " is listed twice";
            for (int param = 0; param < model_.param_size(); ++param)
                EXPECT_EQ(elements[at(param)], model_.param(param).numel()) << act.kernel->name;
        }
    });
}

TEST_P(Acts, OnAGradientComeInTheOrderOfTheRecipe) {
    for_each_plan([&](const Schedule& step) {
        std::map<const ParamKernel*, int> place;
        for (int index = 0; index < std::ssize(recipe_.acts); ++index) place[recipe_.acts[at(index)].kernel] = index;
        std::vector<int> latest(model_.params.size(), -1);
        for (const Task& task : step.tasks) {
            if (task.verb != Verb::param || task.when == When::deferred) continue;
            const ParamTask& param = step.params[at(task.payload)];
            if (!is_of_recipe(param) || param.uses(ParamSlot::plain)) continue;
            std::set<int> params;
            for (const ParamChunk& chunk : param.chunks) params.insert(chunk.param);
            for (const int each : params) {
                EXPECT_LE(latest[at(each)], place.at(param.kernel)) << param.kernel->name;
                latest[at(each)] = place.at(param.kernel);
            }
        }
    });
}

// A kernel finds what its record names where the model has it: a slot that was left out, or bound to nothing, shows
// here.
TEST_P(Acts, HaveEverySlotThatTheirRecordNames) {
    for_each_plan([&](const Schedule& step) {
        for (const ParamTask& task : step.params) {
            for (const ParamChunk& chunk : task.chunks) {
                const bool is_split = model_.param(chunk.param).storage.store == StoreType::split;
                const auto is_bound = [&](ParamSlot slot, const BufferSlice& slice) {
                    return !task.uses(slot) || slice.buffer != kNoBuffer;
                };
                EXPECT_TRUE(is_bound(ParamSlot::weights, chunk.weights)) << task.kernel->name;
                EXPECT_TRUE(is_bound(ParamSlot::gradient, chunk.gradient)) << task.kernel->name;
                EXPECT_TRUE(is_bound(ParamSlot::squares, chunk.squares)) << task.kernel->name;
                EXPECT_TRUE(!is_split || is_bound(ParamSlot::low, chunk.low)) << task.kernel->name;
                EXPECT_TRUE(!task.uses(ParamSlot::state) || chunk.state.size() == recipe_.state.size());
            }
        }
    });
}

// What an update changes of a chunk, it says so: its state, and both halves of a split master.
TEST_P(Acts, ThatUpdateWriteAllThatTheRecipeKeeps) {
    const ParamKernel* const update = recipe_.update();
    if (update == nullptr) GTEST_SKIP() << "there are no gradients";
    EXPECT_TRUE(update->writes(ParamSlot::weights));
    EXPECT_TRUE(update->writes(ParamSlot::low));
    EXPECT_EQ(update->writes(ParamSlot::state), !recipe_.state.empty());
    EXPECT_NE(update->use_of(ParamSlot::gradient), nullptr);
    EXPECT_FALSE(update->writes(ParamSlot::gradient));
}

INSTANTIATE_TEST_SUITE_P(Methods, Acts, testing::ValuesIn(all_methods().begin(), all_methods().end()),
                         [](const auto& each) { return std::string(each.param->name); });

// What the norm sees of a gradient is what the update sees of it.
TEST(ActList, OfAdamwRoundBeforeTheyAddUp) {
    std::vector<std::string_view> names;
    for (const Act& act : make_recipe("adamw", {}).acts) names.push_back(act.kernel->name);
    EXPECT_EQ(names, (std::vector<std::string_view>{"round", "squares", "update"}));
}

// A norm that is to clip is found by a backward pass of its own.
TEST(ActList, OfLomoAreOnThePassThatTheyNeed) {
    for (const char* const name : {"lomo", "adalomo"}) {
        const Recipe clipped = make_recipe(name, {.max_grad_norm = 1}), free = make_recipe(name, {.max_grad_norm = 0});
        EXPECT_TRUE(clipped.has_norm_pass() && !free.has_norm_pass());
        EXPECT_EQ(clipped.acts[0].pass, 1);
        EXPECT_EQ(clipped.acts[1].pass, 2);
        EXPECT_NE(clipped.decision(Stage::on_norm), nullptr);
        EXPECT_NE(free.decision(Stage::on_losses), nullptr);
        EXPECT_NE(free.decision(Stage::at_end), nullptr);
    }
}

}  // namespace
}  // namespace windlass
