// Moments made again from the steps of a window: against the formulas in double precision, and to the bit however they
// are cut, on every instruction set.
#include "perturb/moments.h"

#include "device/cpu/isa.h"
#include "method/forward_only/materialize.h"
#include "model/load.h"
#include "tests/unit/perturb/noise_reference.h"

namespace windlass {
namespace {

constexpr int64_t kMomentElement = 4 * 321, kMomentCount = 3'001;
constexpr uint64_t kMomentSeed = 77;
constexpr int kMomentSteps = 7, kMomentWindow = 4, kMomentDirections = 2;

TEST(Moments, SharesDecayAndAddUpToOne) {
    EXPECT_EQ(decaying_shares(0.5, 1), std::vector<double>({1}));
    EXPECT_EQ(decaying_shares(0.5, 2), std::vector<double>({1 / 1.5, 0.5 / 1.5}));
    EXPECT_EQ(decaying_shares(0, 3), std::vector<double>({1, 0, 0}));
    EXPECT_TRUE(decaying_shares(0.9, 0).empty());
}

TEST(Moments, NamesAreThoseOfTheConfiguration) {
    for (const NoiseMoments moments : {NoiseMoments::none, NoiseMoments::first, NoiseMoments::both})
        EXPECT_EQ(moments_from_name(moments_name(moments)), moments);
    EXPECT_EQ(moments_from_name("adagrad"), std::nullopt);
}

struct MomentCase {
    NoiseMoments moments = NoiseMoments::first;
    DType stored = DType::f32;
    NoiseKind noise = NoiseKind::gaussian;
};

class MomentSteps : public testing::TestWithParam<MomentCase> {
  protected:
    MomentSteps() {
        param_.storage.store = StoreType::as_file;
        param_.storage.dtype = GetParam().stored;
        if (param_.storage.dtype == DType::f8_e4m3) param_.storage.scale_exponent = -11;
        Random random(3, RandomStream::test);
        for (float& number : numbers_) number = 0.1f * random.normal();
        weights_.resize(static_cast<size_t>(kMomentCount * dtype_bytes(param_.storage.dtype)));
        encode_kept(param_, numbers_, weights_);
        decode_kept(param_.storage, weights_, 0, numbers_);
        for (int number = 1; number <= kMomentSteps; ++number) steps_.push_back(step(number));
    }
    ~MomentSteps() override { set_cpu_isa(detected_isa()); }

    MethodOptions options() const {
        return {.beta1 = 0.8,
                .beta2 = 0.95,
                .epsilon = 1e-3,
                .weight_decay = 0.1,
                .directions = kMomentDirections,
                .noise = GetParam().noise,
                .moments = GetParam().moments,
                .replay_window = kMomentWindow};
    }
    StepParams step(int number) const {
        StepParams made{.seed = kMomentSeed, .step = number, .learning_rate = 0.01 / number};
        set_noise(options(), made);
        const std::vector<double> found = {0.7 * number - 2, 1.0 / number};
        EXPECT_TRUE(set_scalars(options(), found, made));
        return made;
    }
    double z(int step, int direction, int64_t i) const {
        const auto draw =
            GetParam().noise == NoiseKind::gaussian
                ? [](uint64_t seed, uint32_t s, uint32_t d, int64_t e) { return gaussian_reference(seed, s, d, e); }
                : sign_reference;
        return draw(kMomentSeed, static_cast<uint32_t>(step), static_cast<uint32_t>(direction), kMomentElement + i);
    }
    // The weight behind each step, as m = sum_j b_1^j u_{t-j} / sum_j b_1^j and likewise v of u^2 say, j below the
    // window.
    double expected(int64_t i) const {
        double w = numbers_[static_cast<size_t>(i)];
        for (int t = 1; t <= kMomentSteps; ++t) {
            double m = 0, v = 0, first = 0, second = 0;
            for (int j = 0; j < kMomentWindow && t - j >= 1; ++j) {
                const StepParams& past = steps_[static_cast<size_t>(t - j - 1)];
                double u = 0;
                for (int d = 0; d < kMomentDirections; ++d)
                    u += double{past.perturb().scalars[static_cast<size_t>(d)]} * z(t - j, d, i) / kMomentDirections;
                m += std::pow(0.8, j) * u;
                v += std::pow(0.95, j) * u * u;
                first += std::pow(0.8, j);
                second += std::pow(0.95, j);
            }
            m /= first;
            v /= second;
            const double rate = steps_[static_cast<size_t>(t - 1)].learning_rate;
            const double moved = GetParam().moments == NoiseMoments::first ? m : m / (std::sqrt(v) + 1e-3);
            w -= rate * moved + rate * 0.1 * w;
        }
        return w;
    }
    // In passes of so many steps over runs of so many elements.
    std::vector<std::byte> updated(int steps_at_once, int64_t elements_at_once, int threads) const {
        std::vector<std::byte> weights = weights_;
        const auto stream = make_stream(DeviceKind::cpu, threads);
        const int64_t bytes = dtype_bytes(param_.storage.dtype);
        for (int64_t first = 0; first < kMomentCount; first += elements_at_once) {
            for (int done = 0; done < kMomentSteps; done += steps_at_once) {
                const int end = std::min(done + steps_at_once, kMomentSteps);
                update_by_steps({.param = param_,
                                 .element = kMomentElement + first,
                                 .count = std::min(elements_at_once, kMomentCount - first),
                                 .weights = weights.data() + first * bytes},
                                std::span(steps_).first(static_cast<size_t>(end)), end - done, *stream);
            }
        }
        return weights;
    }

    LoneParam param_{.spec = {.name = "w", .shape = {kMomentCount}}};
    std::vector<float> numbers_ = std::vector<float>(kMomentCount);
    std::vector<std::byte> weights_;
    std::vector<StepParams> steps_;
};

TEST_P(MomentSteps, AreTheFormulaInDoublePrecision) {
    if (GetParam().stored != DType::f32) GTEST_SKIP() << "rounded at random";
    const std::vector<std::byte> bytes = updated(1, kMomentCount, 1);
    std::vector<float> found(kMomentCount);
    decode_numbers(DType::f32, bytes, found);
    // Seven steps of at most 0.01 times a few in f32, and the polynomials of the normal numbers; where a step finds
    // next to nothing, epsilon is what bounds the quotient's error.
    for (int64_t i = 0; i < kMomentCount; ++i) ASSERT_NEAR(found[static_cast<size_t>(i)], expected(i), 1e-6) << i;
}

TEST_P(MomentSteps, AreTheSameBitsHoweverTheyAreCut) {
    set_cpu_isa(Isa::baseline);
    const std::vector<std::byte> one_by_one = updated(1, kMomentCount, 1);
    EXPECT_TRUE(one_by_one != weights_);
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
        if (isa > detected_isa()) continue;
        set_cpu_isa(isa);
        EXPECT_TRUE(updated(kMomentSteps, kMomentCount, 2) == one_by_one) << isa_name(isa);
        EXPECT_TRUE(updated(3, 1'003, 1) == one_by_one) << isa_name(isa);
        EXPECT_TRUE(updated(2, 37, 1) == one_by_one) << isa_name(isa);
    }
}

// What lies further back than the window changes nothing; what lies within it does.
TEST_P(MomentSteps, LookBackAsFarAsTheWindow) {
    const auto stream = make_stream(DeviceKind::cpu, 1);
    const auto last_update = [&](size_t behind) {
        std::vector<std::byte> weights = weights_;
        update_by_steps({param_, kMomentElement, kMomentCount, weights.data()}, std::span(steps_).subspan(behind), 1,
                        *stream);
        return weights;
    };
    const std::vector<std::byte> all = last_update(0);
    EXPECT_TRUE(last_update(kMomentSteps - kMomentWindow) == all);
    EXPECT_FALSE(last_update(kMomentSteps - kMomentWindow + 1) == all);
}

// A rate of zero leaves every bit, -0 among them; and so do steps that found nothing, where nothing decays.
TEST_P(MomentSteps, LeaveWeightsWhereNothingMovesThem) {
    const std::vector<float> awkward = {0.0f, -0.0f, 6e-8f, -6e-8f, 1e-39f, -1e-39f};
    for (size_t i = 0; i < numbers_.size(); i += 3) numbers_[i] = awkward[i / 3 % awkward.size()];
    encode_kept(param_, numbers_, weights_);
    for (StepParams& step : steps_) {
        step.learning_rate = 0;
        step.perturb().decay = 1;
    }
    EXPECT_TRUE(updated(2, kMomentCount, 1) == weights_);
    param_.training.decays = false;
    for (StepParams& step : steps_) {
        step.learning_rate = 1;
        step.perturb().scalars.fill(0);
    }
    EXPECT_TRUE(updated(2, kMomentCount, 1) == weights_);
}

INSTANTIATE_TEST_SUITE_P(Types, MomentSteps,
                         testing::Values(MomentCase{NoiseMoments::first}, MomentCase{NoiseMoments::both},
                                         MomentCase{NoiseMoments::both, DType::f32, NoiseKind::rademacher},
                                         MomentCase{NoiseMoments::first, DType::bf16},
                                         MomentCase{NoiseMoments::both, DType::bf16},
                                         MomentCase{NoiseMoments::both, DType::f16, NoiseKind::rademacher},
                                         MomentCase{NoiseMoments::both, DType::f8_e4m3}));

// A log keeps what the rule is, so that a replay follows it.
TEST(Moments, RuleIsInTheStep) {
    const MethodOptions options{
        .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .moments = NoiseMoments::both, .replay_window = 5};
    StepParams step;
    set_noise(options, step);
    EXPECT_EQ(step.perturb().rule, moment_rule(options));
    EXPECT_EQ(make_recipe("zeroth_order", options).history, 4);
    EXPECT_EQ(make_recipe("zeroth_order", {}).history, 0);
}

}  // namespace
}  // namespace windlass
