// What a forward-only step may look at and leave alone: no placement changes a bit of it, and MeZO's own order has the
// bits of weights that are walked in place.
#include "method/noise/noise.h"
#include "model/sublayers.h"
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
            .folding = Folding::never};
}

const Variant kVariants[] = {
    {"one_sided", "zeroth_order", {.weight_decay = 0.1, .directions = 3, .estimator = ZoEstimator::one_sided}},
    {"fzoo",
     "zeroth_order",
     {.directions = 4, .noise = NoiseKind::rademacher, .estimator = ZoEstimator::fzoo, .layer_drop = 0.5}},
    {"spsa15", "zeroth_order", {.weight_decay = 0.1, .directions = 2, .estimator = ZoEstimator::spsa15}},
    {"exact", "zeroth_order", {.weight_decay = 0.1, .exact_inplace = true}},
    {"exact_drop", "zeroth_order", {.exact_inplace = true, .layer_drop = 0.5}},
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
      .folding = Folding::each_window}},
    {"tangents_by_window",
     "forward_gradient",
     {.weight_decay = 0.1,
      .directions = 2,
      .noise = NoiseKind::low_rank,
      .noise_window = 2,
      .noise_keeps_left = true,
      .folding = Folding::each_window},
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
        options.micro_count = 1 + static_cast<int>(way % 2);
        options.micro_rows = 2 / options.micro_count;
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
    ways.push_back({.exact_inplace = true});
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
    const ModelSpec model = engine->setup().model, halves = in_sublayers(model);
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

// ---- MeZO in place, as a straight walk over weights in memory ----

using Weights = std::vector<std::vector<std::byte>>;  // by parameter, as stored

class InPlace {
  public:
    InPlace(Engine& engine, const MethodOptions& options) : engine_(engine), options_(options) {
        const ModelSpec& model = engine.setup().model;
        const auto masters = all_masters(engine);
        for (size_t param = 0; param < masters.size(); ++param) {
            const ParamSpec& spec = model.params[param];
            weights_.emplace_back(static_cast<size_t>(spec.numel() * dtype_bytes(spec.store_dtype)));
            encode_numbers(spec.store_dtype, masters[param], weights_.back());
        }
    }

    // Perturb, look, perturb, look, restore, update; returns what was found.
    float step(const TestBatch& batch, int64_t number, double rate) {
        walk(number, 1);
        const double plus = loss(batch);
        walk(number, -2);
        const double minus = loss(batch);
        walk(number, 1);
        const double scale = 1.0 / static_cast<double>(batch.target_count());
        const auto found = static_cast<float>((plus - minus) * scale / (2 * options_.zo_eps));
        for_each([&](const ParamSpec& spec, const NoiseRun& run, std::vector<std::byte>& weights) {
            exact_update(run, term(number), {rate, found, options_.weight_decay, spec.decay},
                         weight_type(spec.store_dtype), weights.data(), *stream_);
        });
        return found;
    }
    std::vector<std::vector<float>> masters() const {
        std::vector<std::vector<float>> masters;
        for (size_t param = 0; param < weights_.size(); ++param) masters.push_back(numbers(param));
        return masters;
    }

  private:
    static NoiseTerm term(int64_t step) { return {.step = static_cast<uint32_t>(step), .coefficient = 1}; }
    template <typename Body>
    void for_each(Body body) {
        const ModelSpec& model = engine_.setup().model;
        const std::vector<int64_t> starts = element_starts(model);
        for (size_t param = 0; param < weights_.size(); ++param)
            body(model.params[param],
                 {.seed = 7, .kind = options_.noise, .element = starts[param], .count = model.params[param].numel()},
                 weights_[param]);
    }
    void walk(int64_t step, double scale) {
        for_each([&](const ParamSpec& spec, const NoiseRun& run, std::vector<std::byte>& weights) {
            exact_probe(run, term(step), scale, options_.zo_eps, weight_type(spec.store_dtype), weights.data(),
                        *stream_);
        });
    }
    std::vector<float> numbers(size_t param) const {
        const ParamSpec& spec = engine_.setup().model.params[param];
        std::vector<float> numbers(static_cast<size_t>(spec.numel()));
        decode_numbers(spec.store_dtype, weights_[param], numbers);
        return numbers;
    }
    // Of the walked weights, as evaluation finds it.
    double loss(const TestBatch& batch) {
        engine_.fill(0, "{}", [&](int param, int64_t first, std::span<float> out) {
            const std::vector<float> all = numbers(static_cast<size_t>(param));
            std::copy_n(all.begin() + first, out.size(), out.begin());
        });
        const StepInput input{.micro = {batch.rows(0, batch.row_count)}};
        return engine_.evaluate(*engine_.setup().schedules.find("eval/24"), input).loss_sum;
    }

    Engine& engine_;
    MethodOptions options_;
    Weights weights_;
    std::unique_ptr<Stream> stream_ = make_stream(DeviceKind::cpu, 1);
};

// gpt2's table is tied: walked once a step in place, used twice.
TEST(ExactInplace, HasTheBitsOfAWalkInPlaceWhereverWeightsAre) {
    constexpr int64_t kSteps = 6;
    constexpr double kRate = 1e-2;
    for (const char* name : {"gpt2", "llama"}) {
        for (const NoiseKind noise : {NoiseKind::gaussian, NoiseKind::rademacher}) {
            const TempFolder folder;
            Golden golden(name);
            golden.folder = write_model(golden, DType::bf16, folder);
            const std::array<TestBatch, 2> batches = batches_of(golden);
            EngineOptions options =
                forward_only_options("zeroth_order", {.weight_decay = 0.1, .noise = noise, .exact_inplace = true});
            options.compute = DType::bf16;
            const auto beside = make_engine(real_files(), golden.folder, options);
            InPlace in_place(*beside, options.method);
            const auto first = in_place.masters();
            std::vector<float> found;
            for (int64_t step = 1; step <= kSteps; ++step)
                found.push_back(in_place.step(batches[static_cast<size_t>(step % 2)], step, kRate));
            EXPECT_NE(in_place.masters(), first);
            const std::vector<Plan> plans = forward_only_plans(DeviceKind::cpu, tiny_model(name).blocks.size(), 1);
            for (size_t index = 0; index < plans.size(); index += 5) {
                FaultFiles image("/image");
                options.plan = plans[index];
                options.store_path = "/image/store.wls";
                const auto engine = make_engine(image, golden.folder, options);
                for (int64_t step = 1; step <= kSteps; ++step) {
                    const TestBatch& batch = batches[static_cast<size_t>(step % 2)];
                    const StepReport report = train_on(*engine, batch, step, kRate);
                    EXPECT_EQ(report.params.scalars[0], found[static_cast<size_t>(step - 1)]) << step;
                }
                EXPECT_TRUE(all_masters(*engine) == in_place.masters()) << describe(options.plan);
            }
        }
    }
}

}  // namespace
}  // namespace windlass
