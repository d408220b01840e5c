// What a block's arrival does to its weights, against the formulas in double precision; and what losses say.
#include "method/forward_only/materialize.h"

#include <cmath>
#include <limits>

#include "tests/unit/perturb/noise_reference.h"

namespace windlass {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kElement = 4 * 321, kCount = 3'001;
constexpr uint64_t kSeed = 77;

LoneParam param_of(DType type) {
    return {.spec = {.name = "w", .shape = Shape{kCount}}, .storage = {.store = StoreType::as_file, .dtype = type}};
}

const MethodOptions kThree = {.weight_decay = 0.1, .zo_eps = 1e-2, .directions = 3};

// A step that has found something along its directions.
StepParams step_of(const MethodOptions& options, int64_t number) {
    StepParams step{.seed = kSeed, .step = number, .learning_rate = 0.02};
    set_noise(options, step);
    for (int index = 0; index < options.directions; ++index)
        step.perturb().scalars[static_cast<size_t>(index)] = 0.5f + static_cast<float>(index);
    return step;
}

double z(int64_t step, int direction, int64_t i) {
    return gaussian_reference(kSeed, static_cast<uint32_t>(step), static_cast<uint32_t>(direction), kElement + i);
}

// w - rate / n (g_1 z_1 + ... + g_n z_n) - rate decay w
double updated(double w, const MethodOptions& options, const StepParams& step, bool decays, int64_t i) {
    double sum = 0;
    for (int index = 0; index < options.directions; ++index)
        sum += double{step.perturb().scalars[static_cast<size_t>(index)]} * z(step.step, index, i);
    const double decay = decays ? options.weight_decay : 0;
    return w - step.learning_rate / options.directions * sum - step.learning_rate * decay * w;
}

std::vector<float> some_weights() {
    Random random(5, RandomStream::test);
    std::vector<float> weights(kCount);
    for (float& each : weights) each = random.normal();
    return weights;
}

// Weights near 1 in f32: a handful of roundings of 6e-8, and the polynomials of the normal numbers.
constexpr double kTolerance = 2e-6;

class Materialization : public testing::Test {
  protected:
    const std::unique_ptr<Stream> stream_ = make_stream(DeviceKind::cpu, 2);
    LoneParam param_ = param_of(DType::f32);
    std::vector<float> weights_ = some_weights();
    const std::vector<float> before_ = weights_;
    std::vector<float> probes_ = std::vector<float>(3 * kCount);
    const StepParams deferred_ = step_of(kThree, 4), step_ = step_of(kThree, 5);

    MaterializeCall call() {
        return {.param = param_,
                .element = kElement,
                .weights = reinterpret_cast<std::byte*>(weights_.data()),
                .steps = {&deferred_, 1},
                .deferred = 1,
                .step = &step_,
                .pass = 1,
                .probes = reinterpret_cast<std::byte*>(probes_.data())};
    }
    float probe(int64_t index, int64_t i) const { return probes_[static_cast<size_t>(index * kCount + i)]; }
};

TEST_F(Materialization, UpdatesAlongTheDirectionsOfTheStepBefore) {
    for (const bool decays : {true, false}) {
        weights_ = before_;
        param_.training.decays = decays;
        materialize_points(call(), *stream_);
        for (size_t i = 0; i < kCount; ++i) {
            const double expected = updated(before_[i], kThree, deferred_, decays, static_cast<int64_t>(i));
            ASSERT_NEAR(weights_[i], expected, kTolerance) << i;
        }
    }
}

TEST_F(Materialization, ProbesWhatHasBeenUpdatedAlongTheDirectionOfTheSweep) {
    materialize_points(call(), *stream_);
    for (int64_t i = 0; i < kCount; ++i) {
        const double w = weights_[static_cast<size_t>(i)], far = 1e-2 * z(5, 1, i);
        ASSERT_NEAR(probe(0, i), w + far, kTolerance) << i;
        ASSERT_NEAR(probe(1, i), w - far, kTolerance) << i;
    }
}

TEST_F(Materialization, WritesAllDirectionsOfAStep) {
    materialize_tangents(call(), *stream_);
    for (int index = 0; index < 3; ++index)
        for (int64_t i = 0; i < kCount; ++i) ASSERT_NEAR(probe(index, i), z(5, index, i), kTolerance) << i;
}

TEST_F(Materialization, LeavesTheWeightsWhereNothingIsHeld) {
    MaterializeCall nothing = call();
    nothing.deferred = 0;
    materialize_points(nothing, *stream_);
    materialize_tangents(nothing, *stream_);
    EXPECT_EQ(weights_, before_);
}

TEST_F(Materialization, NeitherMovesNorProbesFrozenWeights) {
    param_.training.trains = false;
    materialize_points(call(), *stream_);
    EXPECT_EQ(weights_, before_);
    for (int64_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(probe(0, i), before_[static_cast<size_t>(i)]);
        ASSERT_EQ(probe(1, i), before_[static_cast<size_t>(i)]);
    }
    materialize_tangents(call(), *stream_);
    EXPECT_EQ(weights_, before_);
    for (int64_t i = 0; i < 3 * kCount; ++i) ASSERT_EQ(probes_[static_cast<size_t>(i)], 0);
}

TEST_F(Materialization, GivesTheWeightsInTheTypeThatIsComputedWith) {
    std::vector<bf16> plain(kCount);
    MaterializeCall converting = call();
    converting.compute = DType::bf16;
    converting.probes = nullptr;
    converting.plain = reinterpret_cast<std::byte*>(plain.data());
    materialize_tangents(converting, *stream_);
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(plain[i].bits, to_bf16(weights_[i]).bits) << i;
}

// ---- what losses say ----

StepParams concluded(const char* method, const MethodOptions& options, const std::vector<double>& losses,
                     double* loss = nullptr) {
    StepParams step{.head = {.loss_scale = 0.25}};
    const Recipe recipe = make_recipe(method, options);
    recipe.prepare(options, step);
    const Decision found = recipe.decision(Stage::at_end)(options, {.losses = losses}, step);
    if (step.apply) {
        EXPECT_EQ(found.norm, std::abs(step.perturb().scalars[0]));
    }
    if (loss != nullptr) *loss = found.loss;
    return step;
}

TEST(Conclude, ZerothOrderTakesDifferences) {
    double loss = 0;
    const StepParams step = concluded("zeroth_order", {.zo_eps = 0.5, .directions = 2}, {10, 6, 7, 9}, &loss);
    EXPECT_TRUE(step.apply);
    EXPECT_EQ(step.perturb().scalars[0], 1.0f);   // (10 - 6) / 4 / (2 * 0.5)
    EXPECT_EQ(step.perturb().scalars[1], -0.5f);  // (7 - 9) / 4
    EXPECT_EQ(loss, 8);
}

TEST(Conclude, ForwardGradientTakesDerivatives) {
    double loss = 0;
    const StepParams step = concluded("forward_gradient", {.directions = 2}, {10, 6, -8}, &loss);
    EXPECT_TRUE(step.apply);
    EXPECT_EQ(step.perturb().scalars[0], 1.5f);
    EXPECT_EQ(step.perturb().scalars[1], -2.0f);
    EXPECT_EQ(loss, 10);
}

TEST(Conclude, CutsWhatIsTooLong) {
    const StepParams step = concluded("forward_gradient", {.directions = 2, .scalar_clip = 1}, {10, 2, -8});
    EXPECT_TRUE(step.apply);
    EXPECT_EQ(step.perturb().scalars[0], 0.5f);
    EXPECT_EQ(step.perturb().scalars[1], -1.0f);
}

// A clip makes nothing of a number that is none; and a loss may overflow where its derivative does not.
TEST(Conclude, AppliesNothingThatIsNotFinite) {
    for (const double clip : {0.0, 1.0}) {
        for (const double bad : {kInfinity, -kInfinity, std::nan(""), 1e300}) {
            for (size_t place = 0; place < 4; ++place) {
                std::vector<double> losses = {10, 6, 7, 9};
                losses[place] = bad;
                if (std::isfinite(bad) && clip > 0) continue;  // cut, as any other
                const bool is_loss = place == 0 && std::isfinite(bad);
                const MethodOptions pairs{.directions = 2, .scalar_clip = clip};
                EXPECT_FALSE(concluded("zeroth_order", pairs, losses).apply) << bad << " at " << place;
                const MethodOptions three{.directions = 3, .scalar_clip = clip};
                EXPECT_EQ(concluded("forward_gradient", three, losses).apply, is_loss) << bad << " at " << place;
            }
            EXPECT_FALSE(
                concluded("zeroth_order", {.directions = 1, .scalar_clip = clip}, {kInfinity, kInfinity}).apply);
        }
    }
}

}  // namespace
}  // namespace windlass
