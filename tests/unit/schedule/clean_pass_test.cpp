// Passes over the weights as they are, beside those over points: read where they lie, once for all passes; and what the
// random numbers of a step cost where layers are left out.
#include <algorithm>

#include "base/index.h"
#include "schedule/layout.h"
#include "tests/unit/schedule/param_tasks.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

TrainedModel stored_model(DType type, const Recipe& recipe) {
    TrainedModel model = tiny_model("gpt2");
    for (ParamSpec& param : model.params) param.file_dtype = type;
    return stored_as(std::move(model), recipe);
}

Recipe recipe_of(ZoEstimator estimator, double layer_drop = 0) {
    return make_recipe("zeroth_order", {.directions = 3, .estimator = estimator, .layer_drop = layer_drop});
}

// Which buffers the runs of a step read weights from, by the tag: those of points, and those of the clean pass.
TEST(CleanSweep, ReadsTheWeightsWhereTheyLie) {
    for (const ZoEstimator estimator : {ZoEstimator::one_sided, ZoEstimator::fzoo, ZoEstimator::spsa15}) {
        const Recipe recipe = recipe_of(estimator);
        const TrainedModel model = stored_model(DType::bf16, recipe);
        for (const Plan& plan : forward_only_plans(DeviceKind::fake, model.blocks.size())) {
            const ScheduleSet set = checked(model, recipe, numerics_of(DType::bf16, 1, 8, 2), plan);
            const Schedule& schedule = set.schedules[0];
            size_t from_probes = 0, from_weights = 0;
            for (const RunTask& run : schedule.runs) {
                const MemoryTag tag = set.buffer(schedule, run.weights[0].data.buffer).tag;
                EXPECT_TRUE(tag == MemoryTag::probes || tag == MemoryTag::weights) << memory_tag_name(tag);
                ++(tag == MemoryTag::probes ? from_probes : from_weights);
            }
            const size_t runs = 2 * model.blocks.size();  // of two micro-batches
            EXPECT_EQ(from_weights, runs) << describe(plan);
            EXPECT_EQ(from_probes, runs * 3 * at(points_of(estimator))) << describe(plan);
            for (const ParamTask& task : arrivals_of(schedule)) EXPECT_FALSE(recipe.passes[at(task.pass)].clean);
        }
    }
}

// Computed with in another type, the weights are copied, once for each block.
TEST(CleanSweep, ConvertsWhatIsStoredOtherwise) {
    const Recipe recipe = recipe_of(ZoEstimator::one_sided);
    const TrainedModel model = stored_model(DType::f32, recipe);
    for (const Plan& plan : forward_only_plans(DeviceKind::fake, model.blocks.size())) {
        const ScheduleSet set = checked(model, recipe, numerics_of(DType::bf16, 1, 8, 1), plan);
        size_t copied = 0;
        for (const ParamTask& task : arrivals_of(set.schedules[0])) {
            for (const ParamChunk& each : task.chunks) {
                const bool clean = recipe.passes[at(task.pass)].clean;
                EXPECT_EQ(each.plain.buffer != kNoBuffer, clean);
                EXPECT_EQ(each.probes.buffer != kNoBuffer, !clean);
                EXPECT_FALSE(clean && each.updates);
                copied += clean ? 1 : 0;
            }
        }
        size_t used = 0;
        for (const Block& block : model.blocks) used += block.params.size();
        EXPECT_EQ(copied, used) << describe(plan);
    }
}

Demand total(const TrainedModel& model, const Recipe& recipe, const Plan& plan) {
    return total_demand(checked(model, recipe, numerics_of(DType::bf16, 1, 8, 2), plan).schedules[0]);
}

TEST(CleanSweep, MovesNoMoreThanTwoSidedSweepsDo) {
    const Recipe pairs = recipe_of(ZoEstimator::two_sided);
    const TrainedModel model = stored_model(DType::bf16, pairs);
    for (const Plan& plan : forward_only_plans(DeviceKind::fake, model.blocks.size())) {
        const Demand before = total(model, pairs, plan);
        for (const ZoEstimator estimator : {ZoEstimator::one_sided, ZoEstimator::spsa15}) {
            const Demand found = total(model, recipe_of(estimator), plan);
            EXPECT_EQ(found.disk_read_bytes, before.disk_read_bytes) << describe(plan);
            EXPECT_EQ(found.disk_write_bytes, before.disk_write_bytes) << describe(plan);
            EXPECT_EQ(found.up_bytes, before.up_bytes) << describe(plan);
            EXPECT_EQ(found.down_bytes, before.down_bytes) << describe(plan);
            EXPECT_EQ(found.noise, before.noise) << describe(plan);
            // Of seven passes for six, or four for six.
            const double share = estimator == ZoEstimator::spsa15 ? 7.0 / 6 : 4.0 / 6;
            EXPECT_NEAR(found.flops / before.flops, share, 1e-12) << describe(plan);  // sums in another order
        }
    }
}

TEST(LayerDrop, DrawsForTheLayersThatAreKept) {
    const Plan plan = forward_only_plans(DeviceKind::fake, 1)[0];
    for (const double drop : {0.0, 0.25, 0.75}) {
        const Recipe recipe = recipe_of(ZoEstimator::two_sided, drop);
        const TrainedModel model = stored_model(DType::bf16, recipe);
        double layers = 0, others = 0;
        for (const Block& block : model.blocks) {
            for (const int param : block.params) {
                const ParamSpec& spec = model.params[at(param)];
                const bool is_home = &block == &model.blocks[at(spec.block)];
                // Three directions are probed wherever it is used, and applied where it is at home.
                (spec.layer < 0 ? others : layers) += static_cast<double>(spec.numel()) * (is_home ? 6 : 3);
            }
        }
        EXPECT_GT(layers, 0);
        EXPECT_DOUBLE_EQ(total(model, recipe, plan).noise, layers * (1 - drop) + others);
    }
}

TEST(LayerDrop, KnowsLayersByTheirNumberHoweverBlocksAreCut) {
    for (const char* name : {"gpt2", "llama", "opt"}) {
        const TrainedModel model = tiny_model(name);
        for (size_t block = 0; block < model.blocks.size(); ++block) {
            for (const int param : model.blocks[block].params) {
                const ParamSpec& spec = model.params[at(param)];
                if (at(spec.block) != block) continue;
                const bool is_layer = block > 0 && block + 1 < model.blocks.size();
                EXPECT_EQ(spec.layer, is_layer ? static_cast<int>(block) - 1 : -1) << spec.name;
            }
        }
    }
}

}  // namespace
}  // namespace windlass
