// Parameters that are not trained: no gradient, no state, no way back below the first that is.
#include <set>

#include "method/param_groups.h"
#include "schedule/layout.h"
#include "tests/unit/schedule/param_tasks.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

TrainedModel frozen(const std::string& name, const Recipe& recipe, const std::vector<std::string>& matches) {
    TrainedModel model = stored_as(tiny_model(name), recipe);
    std::vector<ParamGroup> groups;
    for (const std::string& match : matches) groups.push_back({.match = match, .train = false});
    apply_param_groups(groups, "groups", model);
    return model;
}

std::set<int> blocks_that_go_back(const Schedule& schedule) {
    std::set<int> blocks;
    for (const RunTask& run : schedule.runs)
        if (!run.gradients.empty()) blocks.insert(run.block);
    return blocks;
}

TEST(Frozen, NothingGoesBackBelowTheFirstThatTrains) {
    const Recipe recipe = make_recipe("adamw", {});
    const TrainedModel model = frozen("llama", recipe, {"*embed*", "*.layers.0.*"});
    for (const Plan& plan : plans_on(DeviceKind::cpu)) {
        const ScheduleSet set = checked(model, recipe, numerics_of(DType::f32, 1, 8, 2), plan);
        EXPECT_EQ(blocks_that_go_back(set.schedules[0]), (std::set<int>{2, 3})) << describe(plan);
        for (const RunTask& run : set.schedules[0].runs) {
            const Segment& segment = set.schedules[0].segments[static_cast<size_t>(run.segment)];
            if (run.block < 2) {
                EXPECT_EQ(segment.region_bytes(Region::saved), 0) << describe(plan);
            }
            if (run.block == 2 && !run.gradients.empty()) {
                EXPECT_EQ(segment.region_bytes(Region::grad_input), 0) << describe(plan);
            }
        }
    }
}

// The head trains the table, so the embedding goes back for it however little there is between them.
TEST(Frozen, ATiedTableBringsTheGradientAllTheWay) {
    const Recipe recipe = make_recipe("adamw", {});
    const TrainedModel model = frozen("gpt2", recipe, {"*.h.*", "*wpe*"});
    for (const Plan& plan : plans_on(DeviceKind::cpu)) {
        const ScheduleSet set = checked(model, recipe, numerics_of(DType::f32, 1, 8, 2), plan);
        EXPECT_EQ(blocks_that_go_back(set.schedules[0]), (std::set<int>{0, 1, 2, 3})) << describe(plan);
    }
}

int64_t persistent_bytes(const ScheduleSet& set, MemoryTag tag) {
    int64_t bytes = 0;
    for (const BufferSpec& buffer : set.persistent) bytes += buffer.tag == tag ? buffer.bytes : 0;
    return bytes;
}

TEST(Frozen, MemoryHoldsNeitherGradientsNorMoments) {
    const Recipe recipe = make_recipe("adamw", {});
    const TrainedModel model = frozen("llama", recipe, {"*embed*", "*.layers.0.*"});
    const Plan plan{.policy = "in_memory", .common = {.update = UpdateTime::in_backward}};
    const ScheduleSet set = checked(model, recipe, numerics_of(DType::f32, 1, 8, 1), plan);
    int64_t gradients = 0, squares = 0;
    for (const Param param : model.all_params()) {
        gradients += param.trains() ? aligned_bytes(param.numel(), 4) : 0;
        squares += param.trains() ? squares_bytes(param.numel()) : 0;
    }
    EXPECT_EQ(persistent_bytes(set, MemoryTag::gradients), gradients + squares);
    EXPECT_EQ(persistent_bytes(set, MemoryTag::state), 2 * gradients);
    for (size_t param = 0; param < model.params.size(); ++param) {
        const ParamPlace& place = set.ids.params[param];
        EXPECT_EQ(place.gradient.buffer != kNoBuffer, model.training[param].trains);
        EXPECT_EQ(place.kept.buffer != kNoBuffer, model.training[param].trains);
        EXPECT_EQ(place.state.empty(), !model.training[param].trains);
        EXPECT_NE(place.low.buffer, kNoBuffer) << "what is written at the end has all its digits";
    }
}

// Points are made of what is trained alone; the rest is read as it is, and once where it is converted.
TEST(Frozen, NothingIsProbedOrSentHome) {
    const Recipe recipe = make_recipe("zeroth_order", {});
    const TrainedModel model = frozen("llama", recipe, {"*embed*", "*.layers.0.*"});
    const auto trains = [&](int param) { return model.training[static_cast<size_t>(param)].trains; };
    for (const DType compute : {DType::f32, DType::bf16}) {
        for (const Plan& plan : forward_only_plans(DeviceKind::cpu, model.blocks.size())) {
            const ScheduleSet set = checked(model, recipe, numerics_of(compute, 1, 8, 1), plan);
            for (const ParamTask& task : arrivals_of(set.schedules[0])) {
                for (const ParamChunk& each : task.chunks) {
                    EXPECT_EQ(each.probes.buffer != kNoBuffer, trains(each.param)) << describe(plan);
                    EXPECT_EQ(each.plain.buffer != kNoBuffer, !trains(each.param) && compute == DType::bf16);
                    EXPECT_FALSE(each.updates && !trains(each.param));
                }
            }
            for (const MoveTask& move : set.schedules[0].moves) {
                if (move.kind != MoveKind::down && move.kind != MoveKind::disk_write) continue;
                for (const MovePiece& piece : move.pieces) EXPECT_TRUE(trains(piece.param)) << describe(plan);
            }
        }
    }
}

}  // namespace
}  // namespace windlass
