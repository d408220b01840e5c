// Engines that only evaluate: no moments anywhere, and loading stays inside the arena.
#include "base/json.h"
#include "tests/unit/run/engine_fixture.h"

namespace windlass {
namespace {

class Inference : public testing::TestWithParam<Home> {};

TEST_P(Inference, LoadsAndScoresWithoutTrainingState) {
    const Golden golden("llama");
    const TempFolder folder;
    ModelFolder model = ModelFolder::open(real_files(), golden.folder);
    HfConfig config = model.config();
    EngineSetup setup{.model = TrainedModel(build_model(config, model.tensors())), .recipe = forward_recipe()};
    setup.numerics = {.compute = DType::f32, .micro_batch_size = 2, .sequence_lengths = {24}};
    setup.plan = {
        .policy = "test", .store = GetParam() == Home::disk, .common = {.weights = GetParam(), .state = GetParam()}};
    setup.schedules =
        lower(setup.model, setup.recipe, setup.numerics, setup.plan, {{ScheduleRequest::Kind::eval, 2, 24, 1}});
    check(setup.schedules);
    setup.store_path = folder.path() + "/store.wls";
    Engine engine(real_files(), std::move(setup));
    engine.load(model, "{}");
    const TestBatch batch(golden.ids("ids"), golden.ids("targets"), 2);
    const StepReport report =
        engine.evaluate(engine.setup().schedules.schedules[0], {.micro = {batch.rows(0, 2)}}, /*token_losses=*/true);
    const double loss = report.loss_sum / static_cast<double>(batch.target_count());
    EXPECT_NEAR(loss, golden.json->at("loss").get<double>(), 1e-5);
    EXPECT_EQ(report.token_losses.size(), 48u);
}

INSTANTIATE_TEST_SUITE_P(Homes, Inference, testing::Values(Home::device, Home::disk));

}  // namespace
}  // namespace windlass
