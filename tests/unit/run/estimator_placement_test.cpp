// What a forward-only step may look at and leave alone: no placement changes a bit of it.
#include "model/sublayers.h"
#include "perturb/noise.h"
#include "tests/sanitizer.h"
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

// Sanitizers look at a sample: each model takes half of the types, and fewer plans.
const size_t kPlansOfAWay = is_sanitized() ? 1 : 2;
const size_t kWayStride = is_sanitized() ? 2 : 1;

struct Variant {
    const char* name;
    const char* method;
    MethodOptions options;
    bool in_8_bits = false, in_4_bits = false;
};

MethodOptions never_folded(double layer_drop = 0) {
    return {.weight_decay = 0.1,
            .directions = 2,
            .noise = NoiseKind::low_rank,
            .noise_window = 0,
            .noise_keeps_left = true,
            .layer_drop = layer_drop,
            .merge = Merge::never};
}

const Variant kVariants[] = {
    {"one_sided", "zeroth_order", {.weight_decay = 0.1, .directions = 3, .estimator = ZoEstimator::one_sided}},
    {"fzoo",
     "zeroth_order",
     {.directions = 4, .noise = NoiseKind::rademacher, .estimator = ZoEstimator::fzoo, .layer_drop = 0.5}},
    {"spsa15", "zeroth_order", {.weight_decay = 0.1, .directions = 2, .estimator = ZoEstimator::spsa15}},
    {"drop", "zeroth_order", {.weight_decay = 0.1, .directions = 2, .layer_drop = 0.5}},
    {"sparse", "zeroth_order", {.weight_decay = 0.1, .directions = 2, .sparse_share = 0.25}},
    {"tangent_drop", "forward_gradient", {.weight_decay = 0.1, .directions = 2, .layer_drop = 0.5}},
    {"in_8_bits",
     "zeroth_order",
     {.weight_decay = 0.1,
      .directions = 2,
      .estimator = ZoEstimator::spsa15,
      .sparse_share = 0.5,
      .moments = NoiseMoments::first,
      .replay_window = 2},
     true},
    {"by_window",
     "zeroth_order",
     {.weight_decay = 0.1,
      .directions = 2,
      .noise = NoiseKind::low_rank,
      .noise_window = 3,  // of four steps
      .estimator = ZoEstimator::spsa15,
      .merge = Merge::per_window}},
    {"tangents_by_window",
     "forward_gradient",
     {.weight_decay = 0.1,
      .directions = 2,
      .noise = NoiseKind::low_rank,
      .noise_window = 2,
      .noise_keeps_left = true,
      .merge = Merge::per_window},
     true},
    {"never_folded", "zeroth_order", never_folded(0.5)},
    {"tangents_never_folded", "forward_gradient", never_folded()},
    {"tangents_in_8_bits", "forward_gradient", {.directions = 2, .noise = NoiseKind::low_rank}, true},
    {"in_4_bits",
     "zeroth_order",
     {.weight_decay = 0.1, .directions = 2, .estimator = ZoEstimator::spsa15, .layer_drop = 0.5},
     false,
     true},
    {"never_folded_in_4_bits", "zeroth_order", never_folded(), false, true},
    {"tangents_in_4_bits", "forward_gradient", {.directions = 2, .noise = NoiseKind::low_rank}, false, true},
};

class VariantPlacement : public testing::TestWithParam<std::tuple<Variant, const char*>> {};

// Plans by turns, over types of files and of numbers that are computed with.
TEST_P(VariantPlacement, NeverChangesABit) {
    const auto& [variant, name] = GetParam();
    const std::vector<Plan> plans = forward_only_plans(DeviceKind::cpu, tiny_model(name).blocks.size(), 2);
    const std::pair<DType, DType> types[] = {
        {DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::f16, DType::f32}, {DType::f32, DType::bf16}};
    const bool is_first = std::string_view(name) == "gpt2";
    const auto place = std::ranges::find(kVariants, std::string_view(variant.name), &Variant::name) - kVariants;
    const size_t number = static_cast<size_t>(place) * 2 + (is_first ? 0 : 1);
    size_t trial = number * std::size(types) / kWayStride * kPlansOfAWay;
    for (size_t way = is_first ? 0 : kWayStride - 1; way < std::size(types); way += kWayStride) {
        const TempFolder folder;
        Golden golden(name);
        golden.folder = write_model(golden, types[way].first, folder);
        const std::array<TestBatch, 2> batches = batches_of(golden);
        EngineOptions options = forward_only_options(variant.method, variant.options);
        options.compute = types[way].second;
        options.in_8_bits = variant.in_8_bits;
        options.in_4_bits = variant.in_4_bits;
        options.micro_batches = 1 + static_cast<int>(way % 2);
        options.micro_batch_size = 2 / options.micro_batches;
        const Outcome reference = run_steps(golden, batches, options);
        EXPECT_NE(reference.losses[0], reference.losses[2]) << "nothing was learnt";
        for (size_t taken = 0; taken < kPlansOfAWay; ++taken) {
            const size_t index = plan_of_trial(trial++, plans.size());
            options.plan = plans[index];
            options.plan.threads = 1 + static_cast<int>(index / 2 % 2);
            options.plan.one_probe = index % 2 == 1;
            options.emulation = {.jitter_seed = index, .jitter_ns = index % 2 == 0 ? 100'000 : 0};
            const Outcome outcome = run_steps(golden, batches, options);
            EXPECT_TRUE(outcome == reference)
                << describe(options.plan) << (options.plan.blocks.empty() ? "" : ", mixed") << ", way " << way
                << ", losses " << (outcome.losses == reference.losses) << ", scalars "
                << (outcome.norms == reference.norms) << ", weights " << (outcome.state == reference.state);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, VariantPlacement,
                         testing::Combine(testing::ValuesIn(kVariants), testing::Values("gpt2", "llama")),
                         [](const auto& info) {
                             return fmt::format("{}_{}", std::get<0>(info.param).name, std::get<1>(info.param));
                         });

// ---- the loss of the weights themselves ----

TEST(CleanSweep, ReportsTheLossThatEvaluationFinds) {
    const Golden golden("gpt2");
    const std::array<TestBatch, 2> batches = batches_of(golden);
    for (const ZoEstimator estimator : {ZoEstimator::one_sided, ZoEstimator::fzoo, ZoEstimator::spsa15}) {
        const auto engine =
            make_engine(real_files(), golden.folder,
                        forward_only_options("zeroth_order", {.directions = 2, .estimator = estimator}));
        for (int64_t step = 1; step <= 3; ++step) {
            const StepInput input{.micro = {batches[0].rows(0, 2)}};
            const double loss = engine->evaluate(*engine->setup().schedules.find("eval/24"), input).loss_sum;
            EXPECT_EQ(train_on(*engine, batches[0], step, 1e-3).loss_sum, loss) << estimator_name(estimator);
        }
    }
}

// On one batch again and again: what is found leads down.
TEST(EstimatorSteps, LowerTheLoss) {
    if (is_sanitized()) GTEST_SKIP() << "hundreds of steps; VariantPlacement takes a few of each";
    constexpr int64_t kSteps = 60;
    const Golden golden("gpt2");
    const TestBatch batch = batches_of(golden)[0];
    std::vector<MethodOptions> ways;
    for (const ZoEstimator estimator : kZoEstimators)
        ways.push_back({.directions = 8, .noise = NoiseKind::rademacher, .estimator = estimator});
    ways.push_back({.directions = 8, .layer_drop = 0.5});
    ways.push_back({.directions = 8, .sparse_share = 0.5});
    for (const MethodOptions& way : ways) {
        const auto engine = make_engine(real_files(), golden.folder, forward_only_options("zeroth_order", way));
        std::vector<double> losses;
        for (int64_t step = 1; step <= kSteps; ++step) losses.push_back(train_on(*engine, batch, step, 1e-3).loss_sum);
        // A tenth of a nat a token, of the 4.6 that chance over 96 ids makes.
        const double tenth = 0.1 * static_cast<double>(batch.target_count());
        EXPECT_LT(losses.back(), losses.front() - tenth)
            << estimator_name(way.estimator) << ", drop " << way.layer_drop << ", share " << way.sparse_share;
    }
}

// ---- which layers a step leaves alone ----

TEST(LayerDropStep, MovesTheLayersThatItKeepsAndTheirNeighbours) {
    const Golden golden("gpt2");
    const std::array<TestBatch, 2> batches = batches_of(golden);
    const auto engine =
        make_engine(real_files(), golden.folder, forward_only_options("zeroth_order", {.layer_drop = 0.5}));
    const TrainedModel model = engine->setup().model, halves = in_sublayers(model);
    auto before = all_masters(*engine);
    int moved_layers = 0, layers = 0;
    for (int64_t step = 1; step <= 6; ++step) {
        EXPECT_TRUE(train_on(*engine, batches[0], step, 1e-2).applied);
        const auto after = all_masters(*engine);
        std::map<int, std::set<bool>> moved;
        for (size_t param = 0; param < before.size(); ++param) {
            EXPECT_EQ(halves.params[param].layer, model.params[param].layer);
            moved[model.params[param].layer].insert(after[param] != before[param]);
        }
        for (const auto& [layer, ways] : moved) {
            EXPECT_EQ(ways.size(), 1u) << "layer " << layer << " moves as a whole";
            EXPECT_TRUE(layer >= 0 || ways.contains(true)) << "embedding and head always move";
            layers += layer < 0 ? 0 : 1;
            moved_layers += layer >= 0 && ways.contains(true) ? 1 : 0;
        }
        before = after;
    }
    EXPECT_GT(moved_layers, 0);
    EXPECT_LT(moved_layers, layers);
}

}  // namespace
}  // namespace windlass
