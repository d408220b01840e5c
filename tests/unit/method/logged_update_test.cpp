// Updates of forward-only methods: as blocks arrive, and many of them at once from what a log keeps of each.
#include "method/forward_only/materialize.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "device/cpu/isa.h"
#include "model/load.h"
#include "perturb/noise.h"
#include "tests/unit/method/logged_step.h"

namespace windlass {
namespace {

constexpr int64_t kArrivalElement = 256, kArrivalRows = 259, kArrivalCols = 271;  // of the parameter in the model
constexpr int64_t kArrivalCount = kArrivalRows * kArrivalCols;                    // more than one piece
constexpr int kArrivalSteps = 9;

struct ArrivalCase {
    DType stored = DType::bf16;
    NoiseKind noise = NoiseKind::gaussian;
    bool decays = true;
    bool keeps_left = false;

    MethodOptions options() const {
        return {.weight_decay = 0.1,
                .directions = 3,
                .noise = noise,
                .noise_rank = 2,
                .noise_window = 4,  // of nine steps
                .noise_keeps_left = keeps_left};
    }
};

class Arrivals : public testing::TestWithParam<ArrivalCase> {
  protected:
    Arrivals() : lowered_(detected_isa()) {
        param_.storage.store = StoreType::as_file;
        param_.storage.dtype = GetParam().stored;
        if (param_.storage.dtype == DType::f8_e4m3) param_.storage.scale_exponent = -11;
        param_.training.decays = GetParam().decays;
        Random random(3, RandomStream::test);
        std::vector<float> numbers(kArrivalCount);
        for (float& number : numbers) number = 0.02f * random.normal();
        weights_.resize(static_cast<size_t>(kArrivalCount * bytes_each()));
        encode_kept(param_, numbers, weights_);
    }
    ~Arrivals() override { set_cpu_isa(lowered_); }

    int64_t bytes_each() const { return dtype_bytes(param_.storage.dtype); }

    // A step as the engine holds it: prepared from the options, concluded from what was found.
    StepParams step(int number) const {
        const MethodOptions options = GetParam().options();
        StepParams step{.seed = 77, .step = number, .learning_rate = 3e-4 / number};
        set_noise(options, step);
        const std::vector<double> found = {1.1 * number, -0.7, 1.0 / (3 + number)};
        EXPECT_TRUE(set_scalars(options, found, step));
        return step;
    }
    // The steps one by one, each as an arrival.
    std::vector<std::byte> arrived(int threads) {
        std::vector<std::byte> weights = weights_;
        const auto stream = make_stream(DeviceKind::cpu, threads);
        for (int number = 1; number <= kArrivalSteps; ++number) {
            const StepParams deferred = step(number), next = step(number + 1);
            materialize_points({.param = param_,
                                .element = kArrivalElement,
                                .weights = weights.data(),
                                .steps = {&deferred, 1},
                                .deferred = 1,
                                .step = &next},
                               *stream);
        }
        return weights;
    }
    // The same from the numbers that a log keeps, in passes of so many steps over runs of so many elements.
    std::vector<std::byte> replayed(int64_t steps_at_once, int64_t elements_at_once, int threads) {
        std::vector<StepParams> steps;
        for (int number = 1; number <= kArrivalSteps; ++number) {
            const StepParams original = step(number);
            steps.push_back(logged(original));
        }
        std::vector<std::byte> weights = weights_;
        const auto stream = make_stream(DeviceKind::cpu, threads);
        for (int64_t first = 0; first < kArrivalCount; first += elements_at_once) {
            for (int64_t done = 0; done < kArrivalSteps; done += steps_at_once) {
                const auto some = std::span(steps).subspan(
                    static_cast<size_t>(done), static_cast<size_t>(std::min(steps_at_once, kArrivalSteps - done)));
                update_by_steps({.param = param_,
                                 .element = kArrivalElement + first,
                                 .count = std::min(elements_at_once, kArrivalCount - first),
                                 .weights = weights.data() + first * bytes_each(),
                                 .first = first},
                                some, static_cast<int>(std::ssize(some)), *stream);
            }
        }
        return weights;
    }

    const Isa lowered_;
    LoneParam param_{.spec = {.name = "w",
                              .shape = GetParam().noise == NoiseKind::low_rank ? Shape{kArrivalRows, kArrivalCols}
                                                                               : Shape{kArrivalCount}}};
    std::vector<std::byte> weights_;
};

TEST_P(Arrivals, AreReplayedToTheBitOnEveryPath) {
    set_cpu_isa(Isa::baseline);
    const std::vector<std::byte> expected = arrived(1);
    EXPECT_TRUE(expected != weights_);
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
        if (isa > detected_isa()) continue;
        set_cpu_isa(isa);
        EXPECT_TRUE(arrived(2) == expected) << isa_name(isa);
        EXPECT_TRUE(replayed(kArrivalSteps, kArrivalCount, 1) == expected) << isa_name(isa);
        EXPECT_TRUE(replayed(4, 30'003, 2) == expected) << isa_name(isa);
    }
}

TEST_P(Arrivals, UpdateByTheMeanOfTheirDirectionsAndDecay) {
    const StepParams one = step(2);
    const Noise noise = noise_of(GetParam().options());
    const NoiseRun run = noise_run(noise, 77, param_.spec, kArrivalElement, 0, kArrivalCount);
    std::vector<NoiseTerm> terms;
    for (int index = 0; index < 3; ++index)
        terms.push_back(
            noise_term(noise, run, 2, index, 1.5e-4 / 3 * one.perturb().scalars[static_cast<size_t>(index)]));
    const NoiseStep update{.step = 2,
                           .decay = GetParam().decays ? static_cast<float>(1 - (1 - 1.5e-4 * 0.1)) : 0.0f,
                           .terms = terms.data(),
                           .term_count = 3};
    const auto stream = make_stream(DeviceKind::cpu, 1);
    std::vector<std::byte> expected = weights_, found = weights_;
    update_and_probe(run,
                     {.type = weight_type(param_.storage.dtype),
                      .scale_exponent = param_.storage.scale_exponent,
                      .weights = expected.data(),
                      .updated = expected.data(),
                      .steps = &update,
                      .step_count = 1},
                     *stream);
    update_by_steps({param_, kArrivalElement, kArrivalCount, found.data()}, std::span(&one, 1), 1, *stream);
    EXPECT_TRUE(found == expected);
    EXPECT_TRUE(found != weights_);
}

TEST_P(Arrivals, LeaveWhatIsNotTrained) {
    param_.training.trains = false;
    EXPECT_TRUE(replayed(kArrivalSteps, kArrivalCount, 1) == weights_);
    EXPECT_TRUE(arrived(1) == weights_);
}

INSTANTIATE_TEST_SUITE_P(Types, Arrivals,
                         testing::Values(ArrivalCase{DType::f32}, ArrivalCase{DType::bf16}, ArrivalCase{DType::f16},
                                         ArrivalCase{DType::bf16, NoiseKind::rademacher},
                                         ArrivalCase{DType::bf16, NoiseKind::low_rank},
                                         ArrivalCase{DType::f16, NoiseKind::low_rank, true, true},
                                         ArrivalCase{DType::f8_e4m3}, ArrivalCase{DType::f8_e4m3, NoiseKind::low_rank},
                                         ArrivalCase{DType::f32, NoiseKind::gaussian, false}));

// Rates so small that 1 - rate * decay keeps few of their digits: what is kept is what is used.
TEST(LoggedUpdate, DecayIsWhatTheLogKeeps) {
    for (const double rate : {1e-3, 1e-9, 1e-14, 0.0}) {
        StepParams step{.learning_rate = rate};
        set_noise({.weight_decay = 0.1}, step);
        EXPECT_EQ(step.perturb().decay, 1 - rate * 0.1);
    }
}

}  // namespace
}  // namespace windlass
