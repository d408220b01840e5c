// What forward-only methods find is what it says it is: derivatives along their directions, and in the mean the
// gradient.
#include <cmath>

#include "base/json.h"
#include "method/forward_only/materialize.h"
#include "tests/sanitizer.h"
#include "tests/unit/model/model_runner.h"
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/run/gpt2_reference.h"

namespace windlass {
namespace {

constexpr uint64_t kEngineSeed = 7;  // of the fixture's engines

// The direction z of a step over each parameter; zero over those that are not trained.
std::vector<std::vector<float>> direction_of(const TrainedModel& model, const Noise& noise, int64_t step, int index) {
    const auto stream = make_stream(DeviceKind::cpu, 1);
    const std::vector<int64_t> starts = global_offsets(model);
    std::vector<std::vector<float>> direction;
    for (size_t param = 0; param < model.params.size(); ++param) {
        direction.emplace_back(static_cast<size_t>(model.params[param].numel()));
        if (!model.training[param].trains) continue;
        const NoiseRun run =
            noise_run(noise, kEngineSeed, model.params[param], starts[param], 0, model.params[param].numel());
        write_direction(run, noise_term(noise, run, step, index, 1), WeightType::f32, direction.back().data(), *stream);
    }
    return direction;
}

// What a step finds along each of its directions; the weights stay where they are.
std::vector<double> scalars_of(Engine& engine, const TestBatch& batch, int64_t step) {
    const StepReport report = train_on(engine, batch, step, /*learning_rate=*/0);
    EXPECT_TRUE(report.applied);
    const auto count = static_cast<size_t>(engine.setup().method_options.directions);
    return {report.params.perturb().scalars.begin(), report.params.perturb().scalars.begin() + count};
}

double root_mean_square(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum / static_cast<double>(values.size()));
}

// The model that all of this is about, and its loss in double precision away from its weights.
class Oracle {
  public:
    const Golden golden{"gpt2"};
    const TestBatch batch{golden.ids("ids"), golden.ids("targets"), 2};

    double loss_at(Engine& engine, const std::vector<std::vector<float>>& direction, double distance) {
        const auto masters = all_masters(engine);
        DoubleWeights weights;
        for (size_t param = 0; param < masters.size(); ++param) {
            std::vector<double>& values = weights[engine.setup().model.params[param].name];
            for (size_t i = 0; i < masters[param].size(); ++i)
                values.push_back(masters[param][i] + distance * direction[param][i]);
        }
        return reference_.loss(weights, batch);
    }
    // The derivative along the direction where the distance goes to zero.
    double difference(Engine& engine, const std::vector<std::vector<float>>& direction, double distance) {
        return (loss_at(engine, direction, distance) - loss_at(engine, direction, -distance)) / (2 * distance);
    }

  private:
    const Gpt2Reference reference_{Json::parse(read_text(real_files(), golden.folder + "/config.json", 1 << 20))};
};

TEST(Gpt2Reference, HasTheLossOfTheGoldenModel) {
    Oracle oracle;
    const auto engine = make_engine(real_files(), oracle.golden.folder, forward_only_options("forward_gradient"));
    const auto nowhere = direction_of(engine->setup().model, {}, 1, 0);
    // The golden loss is kept with all its digits; weights are the same f32 numbers.
    EXPECT_NEAR(oracle.loss_at(*engine, nowhere, 0), oracle.golden.json->at("loss").get<double>(), 1e-12);
}

// Of low rank: factors of the step and of the one before, and kept ones.
struct OracleKind {
    const char* name;
    Noise noise;
};
void PrintTo(const OracleKind& kind, std::ostream* out) {
    *out << kind.name;
}
constexpr OracleKind kOracleKinds[] = {
    {"gaussian", {}},
    {"rademacher", {.kind = NoiseKind::rademacher}},
    {"low_rank", {.kind = NoiseKind::low_rank, .rank = 2, .window = 2}},
    {"low_rank_kept", {.kind = NoiseKind::low_rank, .rank = 3, .window = 0, .keeps_left = true}}};

class Directions : public testing::TestWithParam<OracleKind> {
  protected:
    MethodOptions four(double eps = 1e-3) const {
        const Noise& noise = GetParam().noise;
        return {.zo_eps = eps,
                .directions = 4,
                .noise = noise.kind,
                .noise_rank = static_cast<int>(noise.rank),
                .noise_window = noise.window,
                .noise_keeps_left = noise.keeps_left};
    }
};

TEST_P(Directions, ForwardGradientFindsTheDerivative) {
    Oracle oracle;
    const auto engine =
        make_engine(real_files(), oracle.golden.folder, forward_only_options("forward_gradient", four()));
    std::vector<double> errors, derivatives;
    for (int64_t step = 1; step <= 3; ++step) {
        const std::vector<double> found = scalars_of(*engine, oracle.batch, step);
        for (int index = 0; index < 4; ++index) {
            const auto z = direction_of(engine->setup().model, GetParam().noise, step, index);
            // In double precision: 1e-16 / 1e-5 of rounding, and 1e-10 times the third derivative.
            derivatives.push_back(oracle.difference(*engine, z, 1e-5));
            errors.push_back(found[static_cast<size_t>(index)] - derivatives.back());
        }
    }
    // Tangents are f32, some hundred roundings of 6e-8 deep, and terms larger than their sum cancel.
    EXPECT_GT(root_mean_square(derivatives), 1);
    EXPECT_LT(root_mean_square(errors), 1e-4 * root_mean_square(derivatives));
}

// (L(w + eps z) - L(w - eps z)) / (2 eps) = D + eps^2 D''' / 6 + ..., and where it goes as eps shrinks: to D, with a
// quarter of the error for half of eps, until what is left is rounding.
TEST_P(Directions, ZerothOrderFindsTheDifference) {
    Oracle oracle;
    const auto exact =
        make_engine(real_files(), oracle.golden.folder, forward_only_options("forward_gradient", four()));
    const std::vector<double> derivatives = scalars_of(*exact, oracle.batch, 1);
    std::vector<double> away;  // from the derivatives, by eps
    for (const double eps : {4e-3, 2e-3, 1e-3, 1e-6}) {
        const auto engine =
            make_engine(real_files(), oracle.golden.folder, forward_only_options("zeroth_order", four(eps)));
        const std::vector<double> found = scalars_of(*engine, oracle.batch, 1);
        std::vector<double> errors, distances;
        for (size_t index = 0; index < found.size(); ++index) {
            const auto z = direction_of(engine->setup().model, GetParam().noise, 1, static_cast<int>(index));
            errors.push_back(found[index] - oracle.difference(*engine, z, eps));
            distances.push_back(found[index] - derivatives[index]);
        }
        // Each loss is a mean of f32 numbers near 5, right to about 1e-6; their difference is divided by 2 eps.
        EXPECT_LT(root_mean_square(errors), 1e-6 / eps) << "eps " << eps;
        away.push_back(root_mean_square(distances));
    }
    EXPECT_NEAR(away[0] / away[1], 4, 0.4);
    EXPECT_NEAR(away[1] / away[2], 4, 0.4);
    EXPECT_LT(away[2], 5e-3 * root_mean_square(derivatives));  // eps^2 / 6 of the third derivative
    EXPECT_GT(away[3], away[2]);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Directions, testing::ValuesIn(kOracleKinds),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- the mean over many directions ----

bool is_trained(const ParamSpec& param) {
    return param.name == "transformer.h.0.attn.c_proj.weight" || param.name == "transformer.ln_f.weight";
}

// The gradient by backward passes.
ParamValues gradient_of(Engine& engine, const Golden& golden) {
    const std::vector<int32_t> ids = golden.ids("ids"), targets = golden.ids("targets");
    const std::vector<int64_t> tokens(ids.begin(), ids.end()), wanted(targets.begin(), targets.end());
    const std::vector<int64_t> borders = {0, std::ssize(tokens) / 2};
    ModelRunner runner(engine.setup().model, all_masters(engine), {});
    return runner.gradients(TokenBatch::make(2, tokens, wanted, borders)).gradients;
}

// The sum over directions of the scalar times the direction, in products with itself and with the gradient.
class Estimate {
  public:
    Estimate(const TrainedModel& model, const ParamValues& gradient) : model_(model), gradient_(gradient) {
        for (const Param param : model.all_params()) sum_.emplace_back(param.numel(), 0.0);
    }
    void add(double scalar, const std::vector<std::vector<float>>& z) {
        for (size_t param = 0; param < sum_.size(); ++param)
            for (size_t i = 0; i < sum_[param].size(); ++i) sum_[param][i] += scalar * z[param][i];
        ++count_;
    }
    struct Comparison {
        double cosine, length;  // the length over the gradient's, of what points along it
    };
    Comparison compare() const {
        double own = 0, both = 0, others = 0;
        for (size_t param = 0; param < sum_.size(); ++param) {
            if (!model_.training[param].trains) continue;
            for (size_t i = 0; i < sum_[param].size(); ++i) {
                const double mean = sum_[param][i] / count_, g = gradient_[param][i];
                own += mean * mean, both += mean * g, others += g * g;
            }
        }
        return {both / std::sqrt(own * others), both / others};
    }

  private:
    const TrainedModel& model_;
    const ParamValues& gradient_;
    std::vector<std::vector<double>> sum_;
    int count_ = 0;
};

class Mean : public testing::TestWithParam<const char*> {};

// Of k directions over P parameters, the mean of (z.g) z has the gradient's length along it, and k + P + 1 parts in k
// of its square length in all: a cosine of sqrt(k / (k + P + 1)).
TEST_P(Mean, TendsToTheGradient) {
    if (is_sanitized()) GTEST_SKIP() << "a mean over thousands of directions; others take a few by the same code";
    constexpr int kDirections = 64;
    const Golden golden("gpt2");
    const TestBatch batch(golden.ids("ids"), golden.ids("targets"), 2);
    EngineOptions options = forward_only_options(GetParam(), {.zo_eps = 1e-2, .directions = kDirections});
    options.trains = is_trained;
    const auto engine = make_engine(real_files(), golden.folder, options);
    const TrainedModel& model = engine->setup().model;
    const ParamValues gradient = gradient_of(*engine, golden);
    double P = 0;
    for (const Param param : model.all_params()) P += param.trains() ? static_cast<double>(param.numel()) : 0;
    Estimate estimate(model, gradient);
    int64_t step = 0;
    for (const int steps : {2, 8, 32}) {
        while (step < steps) {
            const std::vector<double> found = scalars_of(*engine, batch, ++step);
            for (int index = 0; index < kDirections; ++index)
                estimate.add(found[static_cast<size_t>(index)], direction_of(model, {}, step, index));
        }
        const double k = steps * kDirections, expected = std::sqrt(k / (k + P + 1));
        const auto [cosine, length] = estimate.compare();
        // The mean square of z.g over k directions has a spread of sqrt(2 / k).
        EXPECT_NEAR(cosine, expected, 3 * std::sqrt(2 / k) * expected);
        EXPECT_NEAR(length, 1, 3 * std::sqrt(2 / k));
    }
}

INSTANTIATE_TEST_SUITE_P(Methods, Mean, testing::Values("zeroth_order", "forward_gradient"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace windlass
