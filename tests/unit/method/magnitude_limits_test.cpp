// Sparse steps: which weights they are about, and that the others keep every bit.
#include "method/forward_only/magnitude_limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "device/cpu/isa.h"
#include "method/forward_only/materialize.h"
#include "model/load.h"
#include "perturb/noise.h"
#include "tensor/dtype.h"
#include "tests/unit/method/logged_step.h"
#include "tests/unit/method/lone_model.h"

namespace windlass {
namespace {

std::vector<float> random_weights(size_t count, uint64_t seed) {
    Random random(seed, RandomStream::test);
    std::vector<float> weights(count);
    for (float& each : weights) each = 0.02f * random.normal();
    return weights;
}

int64_t within(const std::vector<float>& weights, float limit) {
    return std::ranges::count_if(weights, [limit](float each) { return std::abs(each) <= limit; });
}

// Of bf16 numbers: the limit is the least that will do. A limit that is lower by one of bf16's steps is too low.
TEST(MagnitudeHistogram, IsExactForBf16) {
    std::vector<float> weights = random_weights(10'007, 1);
    for (float& each : weights) each = to_float(to_bf16(each));
    MagnitudeHistogram histogram;
    histogram.add(std::span(weights).first(4'000));
    histogram.add(std::span(weights).subspan(4'000));
    for (const double share : {0.001, 0.25, 0.5, 0.75, 0.999, 1.0}) {
        const float limit = histogram.limit(share);
        const double wanted = share * static_cast<double>(weights.size());
        EXPECT_GE(static_cast<double>(within(weights, limit)), wanted) << share;
        EXPECT_LT(static_cast<double>(within(weights, limit * (1 - 0x1p-7f))), wanted) << share;
    }
}

TEST(MagnitudeHistogram, IsNearForF32) {
    std::vector<float> weights = random_weights(10'007, 2);
    MagnitudeHistogram histogram;
    histogram.add(weights);
    std::ranges::sort(weights, {}, [](float each) { return std::abs(each); });
    for (const size_t place : {size_t{10}, size_t{2'500}, size_t{9'000}, weights.size() - 1}) {
        const float exact = std::abs(weights[place]);
        const float limit = histogram.limit((static_cast<double>(place) + 0.5) / static_cast<double>(weights.size()));
        EXPECT_GE(limit, exact);
        EXPECT_LE(limit, exact * (1 + 0x1p-7f));
    }
}

TEST(MagnitudeHistogram, TakesWeightsThatAreAllTheSame) {
    MagnitudeHistogram zeros, ones;
    zeros.add(std::vector<float>{0.0f, -0.0f, 0.0f});
    EXPECT_GE(zeros.limit(0.1), 0.0f);
    EXPECT_LT(zeros.limit(1), 1e-38f);
    ones.add(std::vector<float>{1.0f, -1.0f});
    EXPECT_EQ(within({1.0f, -1.0f}, ones.limit(0.5)), 2);
}

TEST(MagnitudeLimits, AreOfMatricesAlone) {
    TrainedModel model = lone_model({ParamSpec{.name = "w", .shape = {40, 50}}, {.name = "b", .shape = {50}}});
    const std::vector<float> weights = random_weights(2'000, 3);
    set_by_magnitudes(model, 0.25, [&](int, int64_t first, std::span<float> out) {
        std::copy_n(weights.begin() + first, out.size(), out.begin());
    });
    EXPECT_NEAR(static_cast<double>(within(weights, model.perturb[0].magnitude_limit)), 500, 15);
    EXPECT_TRUE(std::isinf(model.perturb[1].magnitude_limit));
}

// Scales are of all matrices, limits of those that are trained, and of the weights as they are kept.
TEST(MagnitudeLimits, AreOfWeightsAsTheyAreKeptIn8Bits) {
    TrainedModel model = lone_model({ParamSpec{.name = "w", .shape = {40, 50}, .file_dtype = DType::bf16},
                                     {.name = "frozen", .shape = {40, 50}, .file_dtype = DType::f16},
                                     {.name = "b", .shape = {50}, .file_dtype = DType::bf16}});
    model.training[1].trains = false;
    set_store(model, StoreType::as_file);
    keep_in_8_bits(model);
    std::vector<float> weights = random_weights(2'000, 3);
    for (float& each : weights) each = to_float(to_bf16(each));
    weights[7] = -0.25f;
    set_by_magnitudes(model, 0.25, [&](int param, int64_t first, std::span<float> out) {
        for (size_t i = 0; i < out.size(); ++i)
            out[i] = weights[static_cast<size_t>(first) + i] * (param == 1 ? 1e-5f : 1.0f);
    });
    EXPECT_EQ(scale_exponents(model), std::vector<int>({-9, -15, 0}));  // -0.25 is -128 * 2^-9; f16 ends at 2^-24
    EXPECT_TRUE(std::isinf(model.perturb[1].magnitude_limit));
    std::vector<std::byte> bytes(weights.size());
    encode_kept(model.param(0), weights, bytes);
    decode_kept(model.storage[0], bytes, 0, weights);
    const float limit = model.perturb[0].magnitude_limit;
    EXPECT_EQ(std::ranges::count(weights, limit) + std::ranges::count(weights, -limit) > 0, true);
    EXPECT_GE(within(weights, limit), 500);
    EXPECT_LT(within(weights, limit * 0.999f), 500);
}

// ---- what arrives of them ----

constexpr int64_t kLimitedCount = 9'001, kLimitedElement = 256;
constexpr MethodOptions kLimitedOptions{.weight_decay = 0.1, .zo_eps = 1e-3, .directions = 2, .sparse_share = 0.3};

class SparseArrival : public testing::TestWithParam<std::tuple<DType, NoiseKind>> {
  protected:
    SparseArrival() {
        dense_.storage.dtype = sparse_.storage.dtype = std::get<0>(GetParam());
        if (dense_.storage.dtype == DType::f8_e4m3)
            dense_.storage.scale_exponent = sparse_.storage.scale_exponent = -11;
        sparse_.perturb.magnitude_limit = 0.01f;
        weights_.resize(static_cast<size_t>(kLimitedCount * dtype_bytes(dense_.storage.dtype)));
        encode_kept(dense_, random_weights(kLimitedCount, 4), weights_);
    }
    ~SparseArrival() override { set_cpu_isa(detected_isa()); }
    StepParams step(int64_t number) const {
        MethodOptions options = kLimitedOptions;
        options.noise = std::get<1>(GetParam());
        StepParams made{.seed = 7, .step = number, .learning_rate = 1e-2};
        set_noise(options, made);
        made.perturb().scalars[0] = 0.5f;
        made.perturb().scalars[1] = -0.25f;
        return made;
    }
    std::vector<float> numbers(const std::vector<std::byte>& stored) const {
        std::vector<float> made(kLimitedCount);
        decode_kept(dense_.storage, stored, 0, made);
        return made;
    }
    // The weights behind an arrival, and both points.
    struct Arrived {
        std::vector<float> weights, probes;
    };
    Arrived arrive(const Param& param, std::vector<std::byte> weights, int64_t number) {
        const StepParams deferred = step(number), next = step(number + 1);
        std::vector<float> probes(2 * kLimitedCount);
        materialize_points({.param = param,
                            .element = kLimitedElement,
                            .weights = weights.data(),
                            .steps = {&deferred, 1},
                            .deferred = 1,
                            .step = &next,
                            .pass = 1,
                            .probes = reinterpret_cast<std::byte*>(probes.data())},
                           *stream_);
        return {numbers(weights), probes};
    }

    const std::unique_ptr<Stream> stream_ = make_stream(DeviceKind::cpu, 2);
    LoneParam dense_{.spec = {.name = "w", .shape = {kLimitedCount}}, .storage = {.store = StoreType::as_file}},
        sparse_ = dense_;
    std::vector<std::byte> weights_;
};

// Small weights as without a limit; large ones as if nothing arrived.
TEST_P(SparseArrival, MovesAndProbesTheSmallOnesAlone) {
    const std::vector<float> before = numbers(weights_);
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
        if (isa > detected_isa()) continue;
        set_cpu_isa(isa);
        const Arrived all = arrive(dense_, weights_, 3), some = arrive(sparse_, weights_, 3);
        std::vector<std::byte> stored = weights_;
        encode_kept(dense_, some.weights, stored);
        int64_t moved = 0, large = 0;
        for (size_t i = 0; i < kLimitedCount; ++i) {
            const bool is_small = std::abs(before[i]) <= sparse_.perturb.magnitude_limit;
            ASSERT_EQ(some.weights[i], is_small ? all.weights[i] : before[i]) << isa_name(isa) << i;
            moved += some.weights[i] != before[i] ? 1 : 0;
            large += is_small ? 0 : 1;
            // The probe looks at what has been updated.
            const bool is_probed = std::abs(some.weights[i]) <= sparse_.perturb.magnitude_limit;
            const float plus = some.probes[i], minus = some.probes[i + kLimitedCount];
            ASSERT_EQ(plus != some.weights[i], is_probed) << i;
            ASSERT_EQ(minus != some.weights[i], is_probed) << i;
            if (is_small && is_probed) {
                ASSERT_EQ(plus, all.probes[i]) << i;
            }
        }
        EXPECT_GT(large, kLimitedCount / 3);
        EXPECT_GT(moved, kLimitedCount / 10);
    }
}

// Each step looks at what the one before it left: weights cross the limit both ways.
TEST_P(SparseArrival, IsReplayedInOnePassAsStepByStep) {
    std::vector<std::byte> one_by_one = weights_, at_once = weights_;
    std::vector<StepParams> steps;
    for (int64_t number = 1; number <= 8; ++number) {
        const std::vector<float> after = arrive(sparse_, one_by_one, number).weights;
        encode_kept(dense_, after, one_by_one);
        steps.push_back(logged(step(number)));
    }
    for (const int64_t part : {int64_t{4'444}, kLimitedCount}) {
        at_once = weights_;
        for (int64_t first = 0; first < kLimitedCount; first += part)
            update_by_steps({.param = sparse_,
                             .element = kLimitedElement + first,
                             .count = std::min(part, kLimitedCount - first),
                             .weights = at_once.data() + first * dtype_bytes(dense_.storage.dtype)},
                            steps, static_cast<int>(steps.size()), *stream_);
        EXPECT_TRUE(at_once == one_by_one) << part;
    }
    EXPECT_TRUE(at_once != weights_);
}

INSTANTIATE_TEST_SUITE_P(Types, SparseArrival,
                         testing::Combine(testing::Values(DType::f32, DType::bf16, DType::f16, DType::f8_e4m3),
                                          testing::Values(NoiseKind::gaussian, NoiseKind::rademacher)),
                         [](const auto& info) {
                             return fmt::format("{}_{}", dtype_name(std::get<0>(info.param)),
                                                noise_kind_name(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace windlass
