// MeZO's own step: points and updates that are made apart from each other have the bits of the walk in place.
#include "method/noise/exact.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/rng.h"
#include "device/cpu/isa.h"
#include "method/noise/arrival.h"
#include "model/load.h"

namespace windlass {
namespace {

constexpr int64_t kElement = 24, kCount = 70'001;  // more than one piece, and not from its beginning
constexpr MethodOptions kOptions{.weight_decay = 0.1, .zo_eps = 1e-3, .exact_inplace = true};

struct Case {
    DType stored = DType::bf16, compute = DType::bf16;
    NoiseKind noise = NoiseKind::gaussian;
    bool decays = true;
};

using Bytes = std::vector<std::byte>;

class ExactStep : public testing::TestWithParam<Case> {
  protected:
    ExactStep() {
        param_.store_dtype = GetParam().stored;
        param_.decay = GetParam().decays;
        Random random(3, RandomStream::test);
        std::vector<float> numbers(kCount);
        for (float& number : numbers) number = 0.02f * random.normal();
        weights_.resize(static_cast<size_t>(kCount * dtype_bytes(GetParam().stored)));
        encode_numbers(GetParam().stored, numbers, weights_);
    }
    ~ExactStep() override { set_cpu_isa(detected_isa()); }

    StepParams step(int number) const {
        MethodOptions options = kOptions;
        options.noise = GetParam().noise;
        StepParams made{.seed = 77, .step = number, .learning_rate = 3e-3 / number};
        set_noise(options, made);
        made.scalars[0] = 1.1f - 0.4f * static_cast<float>(number);
        return made;
    }
    NoiseRun run() const { return {.seed = 77, .kind = GetParam().noise, .element = kElement, .count = kCount}; }
    void walk(Bytes& weights, int number, double scale) {
        const NoiseTerm term{.step = static_cast<uint32_t>(number), .coefficient = 1};
        exact_probe(run(), term, scale, kOptions.zo_eps, weight_type(GetParam().stored), weights.data(), *stream_);
    }
    // The weights as they are computed with.
    Bytes computed(const Bytes& weights) const {
        std::vector<float> numbers(kCount);
        decode_numbers(GetParam().stored, weights, numbers);
        Bytes made(static_cast<size_t>(kCount * dtype_bytes(GetParam().compute)));
        encode_numbers(GetParam().compute, numbers, made);
        return made;
    }
    ArrivalCall call(Bytes& weights, const StepParams& step) {
        return {.param = &param_,
                .element = kElement,
                .weights = weights.data(),
                .step = &step,
                .compute = GetParam().compute};
    }

    ParamSpec param_{.name = "w", .shape = {kCount}, .store = StoreType::as_file};
    Bytes weights_;
    const std::unique_ptr<Stream> stream_ = make_stream(DeviceKind::cpu, 2);
};

// Perturb, look, perturb, look, restore, update: as the tensors of a model in memory do it.
TEST_P(ExactStep, IsTheWalkInPlaceToTheBitOnEveryPath) {
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
        if (isa > detected_isa()) continue;
        set_cpu_isa(isa);
        Bytes straight = weights_, arrived = weights_;
        std::optional<StepParams> pending;
        for (int number = 1; number <= 6; ++number) {
            const StepParams now = step(number);
            Bytes points(computed(weights_).size() * 2);
            ArrivalCall arrival = call(arrived, now);
            if (pending) arrival.steps = {&*pending, 1};
            arrival.pending = pending ? 1 : 0;
            arrival.probes = points.data();
            arrive_exactly(arrival, *stream_);
            const std::span plus = std::span(points).first(points.size() / 2),
                            minus = std::span(points).last(plus.size());
            walk(straight, number, 1);
            EXPECT_TRUE(std::ranges::equal(computed(straight), plus)) << isa_name(isa) << number;
            walk(straight, number, -2);
            EXPECT_TRUE(std::ranges::equal(computed(straight), minus)) << isa_name(isa) << number;
            walk(straight, number, 1);
            exact_update(run(), {.step = static_cast<uint32_t>(number), .coefficient = 1},
                         {.learning_rate = now.learning_rate,
                          .g = now.scalars[0],
                          .decay = kOptions.weight_decay,
                          .decays = GetParam().decays},
                         weight_type(GetParam().stored), straight.data(), *stream_);
            pending = now;
        }
        arrive_exactly(
            {.param = &param_, .element = kElement, .weights = arrived.data(), .steps = {&*pending, 1}, .pending = 1},
            *stream_);
        EXPECT_TRUE(arrived == straight) << isa_name(isa);
        EXPECT_TRUE(arrived != weights_);
    }
}

TEST_P(ExactStep, EachPointByItselfIsTheSame) {
    const StepParams now = step(3);
    Bytes both(computed(weights_).size() * 2), one(both.size() / 2);
    ArrivalCall arrival = call(weights_, now);
    arrival.probes = both.data();
    arrive_exactly(arrival, *stream_);
    for (const int point : {0, 1}) {
        arrival.point = point;
        arrival.probes = one.data();
        arrive_exactly(arrival, *stream_);
        EXPECT_TRUE(std::equal(one.begin(), one.end(), both.begin() + point * std::ssize(one))) << point;
    }
}

// The drift is part of what a log is replayed to.
TEST_P(ExactStep, IsReplayedFromALogInPartsOfAnySize) {
    std::vector<StepParams> steps;
    Bytes arrived = weights_;
    for (int number = 1; number <= 5; ++number) {
        const StepParams now = step(number);
        arrive_exactly(
            {.param = &param_, .element = kElement, .weights = arrived.data(), .steps = {&now, 1}, .pending = 1},
            *stream_);
        steps.push_back(params_of(noise_update(now)));
        EXPECT_EQ(steps.back().method[0], 0) << "the distance of a clean probe is not in a log";
    }
    const int64_t width = dtype_bytes(GetParam().stored);
    for (const int64_t part : {kCount, int64_t{30'003}}) {
        Bytes replayed = weights_;
        for (int64_t first = 0; first < kCount; first += part)
            update_by_steps({.param = &param_,
                             .element = kElement + first,
                             .count = std::min(part, kCount - first),
                             .weights = replayed.data() + first * width},
                            steps, static_cast<int>(steps.size()), *stream_);
        EXPECT_TRUE(replayed == arrived) << part;
    }
}

INSTANTIATE_TEST_SUITE_P(Types, ExactStep,
                         testing::Values(Case{}, Case{DType::f32, DType::f32}, Case{DType::f16, DType::f32},
                                         Case{DType::f32, DType::bf16}, Case{DType::f16, DType::bf16},
                                         Case{DType::bf16, DType::f32, NoiseKind::rademacher},
                                         Case{DType::bf16, DType::bf16, NoiseKind::gaussian, false}),
                         [](const auto& info) {
                             return fmt::format("{}_in_{}_{}_{}", dtype_name(info.param.stored),
                                                dtype_name(info.param.compute), noise_kind_name(info.param.noise),
                                                info.param.decays ? "decays" : "plain");
                         });

}  // namespace
}  // namespace windlass
