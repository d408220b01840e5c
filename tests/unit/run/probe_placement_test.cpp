// Steps without a backward pass: the same bits in whole layers and in sublayers, with both probes at once or one by
// one, and however many layers go up ahead.
#include "device/cpu/isa.h"
#include "model/sublayers.h"
#include "perturb/noise.h"
#include "tests/sanitizer.h"
#include "tests/unit/run/engine_fixture.h"

namespace windlass {
namespace {

const Golden& probed_golden() {
    static const Golden read("opt");
    return read;
}

struct ProbedVariant {
    const char* method;
    MethodOptions options;
};
const ProbedVariant kProbedVariants[] = {
    {"zeroth_order", {.zo_eps = 1e-2, .directions = 2}},
    {"forward_gradient", {.zo_eps = 1e-2, .directions = 2}},
    {"zeroth_order", {.zo_eps = 1e-2, .directions = 2, .estimator = ZoEstimator::fzoo, .layer_drop = 0.5}},
    {"zeroth_order", {.zo_eps = 1e-2, .directions = 2, .estimator = ZoEstimator::spsa15}},
    {"zeroth_order", {.zo_eps = 1e-2, .directions = 2, .noise = NoiseKind::low_rank, .noise_window = 2}},
    {"forward_gradient",
     {.zo_eps = 1e-2,
      .directions = 2,
      .noise = NoiseKind::low_rank,
      .noise_window = 2,
      .noise_keeps_left = true,
      .layer_drop = 0.3}},
};

struct ProbedWay {
    bool sublayers = false;
    Plan plan;
    int writeback_steps = 1;
};

// Sanitizers look at every other number of layers that go up ahead.
const int kAheadStride = is_sanitized() ? 2 : 1;

std::unique_ptr<Engine> probing_engine(const ProbedVariant& variant, const ProbedWay& way, int64_t sequence_length) {
    ModelFolder folder = ModelFolder::open(real_files(), probed_golden().folder);
    HfConfig config = folder.config();
    EngineSetup setup{.model = TrainedModel(build_model(config, folder.tensors())),
                      .recipe = make_recipe(variant.method, variant.options),
                      .method_options = variant.options,
                      .numerics = {.compute = DType::f32,
                                   .micro_batch_size = 1,
                                   .micro_batches = 2,
                                   .sequence_lengths = {sequence_length}},
                      .plan = way.plan,
                      .seed = 7};
    setup.plan.writeback_steps = way.writeback_steps;
    setup.numerics.kernel_path = std::string(isa_name(cpu_isa()));
    set_store(setup.model, setup.recipe.store);
    if (way.sublayers) setup.model = in_sublayers(setup.model);
    setup.schedules = lower(setup.model, setup.recipe, setup.numerics, setup.plan,
                            {{ScheduleRequest::Kind::train, 1, sequence_length, 2}});
    check(setup.schedules);
    auto engine = std::make_unique<Engine>(real_files(), std::move(setup));
    engine->load(folder, "{}");
    return engine;
}

struct Result {
    std::vector<double> losses;
    std::vector<float> found;
    std::vector<std::vector<float>> weights;
    bool operator==(const Result&) const = default;
};

Result train(const ProbedVariant& variant, const ProbedWay& way) {
    const TestBatch a(probed_golden().ids("ids"), probed_golden().ids("targets"), 2);
    const TestBatch b(probed_golden().ids("ids_b"), probed_golden().ids("targets_b"), 2);
    const auto engine = probing_engine(variant, way, a.sequence_length);
    Result result;
    for (int64_t step = 1; step <= 3; ++step) {
        const StepReport report = train_on(*engine, step % 2 == 0 ? b : a, step, 1e-3);
        result.losses.push_back(report.loss_sum);
        result.found.insert(result.found.end(), report.params.perturb().scalars.begin(),
                            report.params.perturb().scalars.begin() + 2);
    }
    engine->flush();
    result.weights = all_masters(*engine);
    return result;
}

Plan probing_plan(bool own_memory, int ahead, bool one_probe) {
    const Home home = own_memory ? Home::host : Home::device;
    return {.policy = "test",
            .device = {.own_memory = own_memory},
            .read_ahead = ahead,
            .upload_ahead = ahead,
            .one_probe = one_probe,
            .common = {.weights = home, .state = home, .gradients = home, .update = UpdateTime::next_forward}};
}

TEST(ProbePlacement, NeverChangesABit) {
    for (const ProbedVariant& variant : kProbedVariants) {
        SCOPED_TRACE(fmt::format("{}, {}", variant.method, estimator_name(variant.options.estimator)));
        const Result want = train(variant, {.plan = probing_plan(false, 0, false)});
        ASSERT_NE(want.found[0], 0.0f);
        ASSERT_NE(want.losses[0], want.losses[2]);
        for (const bool sublayers : {false, true}) {
            for (const bool one_probe : {false, true}) {
                EXPECT_TRUE(train(variant, {sublayers, probing_plan(false, 1, one_probe)}) == want)
                    << sublayers << one_probe;
                for (int ahead = sublayers ? kAheadStride - 1 : 0; ahead < 4; ahead += kAheadStride)
                    EXPECT_TRUE(train(variant, {sublayers, probing_plan(true, ahead, one_probe), 1 + ahead % 3}) ==
                                want)
                        << sublayers << one_probe << ahead;
            }
        }
    }
}

}  // namespace
}  // namespace windlass
