// Updates that stay beside weights: what is computed with in a window, what is merged behind it, and sums that are
// never merged.
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "device/cpu/isa.h"
#include "method/forward_only/materialize.h"
#include "model/load.h"
#include "perturb/noise.h"
#include "tests/unit/method/lone_model.h"

namespace windlass {
namespace {

constexpr int64_t kMergeElement = 512, kMergeRows = 131, kMergeCols = 1100;  // more than one part of a matrix
constexpr int64_t kMergeCount = kMergeRows * kMergeCols;
constexpr int kWindow = 5, kDirections = 2;

struct MergeCase {
    const char* name;
    DType stored = DType::bf16;
    Merge merge = Merge::per_window;
    bool keeps_left = false;
    bool is_matrix = true;
    double layer_drop = 0;
    float limit = std::numeric_limits<float>::infinity();
};
void PrintTo(const MergeCase& each, std::ostream* out) {
    *out << each.name;
}

class Merged : public testing::TestWithParam<MergeCase> {
  protected:
    Merged() : isa_(detected_isa()), stream_(make_stream(DeviceKind::cpu, 2)) {
        param_.storage.store = StoreType::as_file;
        param_.storage.dtype = GetParam().stored;
        param_.perturb.merge = GetParam().merge;
        param_.spec.layer = 3;
        param_.perturb.magnitude_limit = GetParam().limit;
        if (param_.storage.dtype == DType::f8_e4m3) param_.storage.scale_exponent = -11;
        model_ = lone_model(std::vector<LoneParam>{
            {.spec = {.name = "before", .shape = {kMergeElement}}, .training = {.trains = false}}, param_});
        Random random(3, RandomStream::test);
        std::vector<float> numbers(kMergeCount);
        for (float& number : numbers) number = 0.02f * random.normal();
        weights_.resize(static_cast<size_t>(kMergeCount * dtype_bytes(param_.storage.dtype)));
        encode_kept(param_, numbers, weights_);
        base_.resize(kMergeCount);
        decode_kept(param_.storage, weights_, 0, base_);
        for (int number = 1; number <= kWindow; ++number) steps_.push_back(step(number));
    }
    ~Merged() override { set_cpu_isa(isa_); }

    static MethodOptions options() {
        const bool never = GetParam().merge == Merge::never;
        return {.weight_decay = 0.1,
                .directions = kDirections,
                .noise = NoiseKind::low_rank,
                .noise_rank = 3,
                .noise_window = never ? 0 : kWindow,
                .noise_keeps_left = GetParam().keeps_left,
                .layer_drop = GetParam().layer_drop,
                .merge = GetParam().merge};
    }
    static StepParams step(int number) {
        StepParams step{.seed = 77, .step = number, .learning_rate = 3e-2 / number};
        set_noise(options(), step);
        set_scalars(options(), std::vector<double>{0.5 * number, 2.0 / (1 + number)}, step);
        EXPECT_TRUE(step.apply);
        return step;
    }
    // What the steps so far have made of a parameter that is never merged.
    const LowRankSum* sum() {
        sums_.emplace(model_);
        for (const StepParams& step : steps_) sums_->add(step);
        return sums_->by_param()[1];
    }
    std::vector<float> read(int64_t elements_at_once) {
        std::vector<float> numbers(kMergeCount);
        const LowRankSum* const all = sum();
        for (int64_t first = 0; first < kMergeCount; first += elements_at_once) {
            const int64_t count = std::min(elements_at_once, kMergeCount - first);
            read_updated({.param = param_,
                          .element = kMergeElement + first,
                          .count = count,
                          .weights = weights_.data() + first * dtype_bytes(param_.storage.dtype),
                          .first = first},
                         steps_, kWindow, all, std::span(numbers).subspan(at(first), at(count)), *stream_);
        }
        return numbers;
    }
    // Step after step in double precision, along the directions that write_direction gives.
    std::vector<double> reference() {
        std::vector<double> w(base_.begin(), base_.end());
        std::vector<float> z(kMergeCount);
        for (const StepParams& step : steps_) {
            if (!moves(param_, step)) continue;
            const std::vector<double> before = w;
            for (int j = 0; j < kDirections; ++j) {
                const NoiseRun run =
                    noise_run(step.perturb().noise, step.seed, param_.spec, kMergeElement, 0, kMergeCount);
                write_direction(run, noise_term(step.perturb().noise, run, step.step, j, 1.0), WeightType::f32,
                                z.data(), *stream_);
                const double g = step.learning_rate / kDirections * step.perturb().scalars[at(j)];
                for (size_t i = 0; i < w.size(); ++i) w[i] -= is_masked(i) ? 0 : g * z[i];
            }
            for (size_t i = 0; i < w.size(); ++i) w[i] -= is_masked(i) ? 0 : step.learning_rate * 0.1 * before[i];
        }
        return w;
    }
    // By what is kept, however far what is computed with has gone.
    bool is_masked(size_t element) const { return std::abs(base_[element]) > param_.perturb.magnitude_limit; }
    static size_t at(int64_t index) { return static_cast<size_t>(index); }

    const Isa isa_;
    const std::unique_ptr<Stream> stream_;
    LoneParam param_{
        .spec = {.name = "w", .shape = GetParam().is_matrix ? Shape{kMergeRows, kMergeCols} : Shape{kMergeCount}}};
    TrainedModel model_;
    std::vector<std::byte> weights_;
    std::vector<float> base_;  // numbers of them
    std::vector<StepParams> steps_;
    std::optional<LowRankSums> sums_;
};

TEST_P(Merged, ReadsWhatTheStepsAddUpTo) {
    const std::vector<std::byte> kept = weights_;
    const std::vector<double> expected = reference();
    const std::vector<float> found = read(kMergeCount);
    EXPECT_TRUE(weights_ == kept);
    double moved = 0;
    for (int64_t i = 0; i < kMergeCount; ++i) {
        // Sums of some tens of f32 terms of up to 0.1.
        ASSERT_NEAR(found[at(i)], expected[at(i)], 1e-6) << i;
        moved = std::max(moved, std::abs(expected[at(i)] - base_[at(i)]));
    }
    EXPECT_GT(moved, 0.01);
}

TEST_P(Merged, HasOneSetOfBits) {
    const std::vector<float> expected = read(kMergeCount);
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
        if (isa > detected_isa()) continue;
        set_cpu_isa(isa);
        EXPECT_TRUE(read(kMergeCount) == expected) << isa_name(isa);
        EXPECT_TRUE(read(30'003) == expected) << isa_name(isa) << ", in pieces";
    }
}

// Copies and both points are the nearest to those numbers; nothing is stored.
TEST_P(Merged, ArrivesWithUpdatesThatAreNotStored) {
    const std::vector<std::byte> kept = weights_;
    const std::vector<float> numbers = read(kMergeCount);
    const StepParams next = step(kWindow);  // of the window's directions
    const LowRankSum* const all = sum();
    std::vector<float> plain(kMergeCount), points(2 * kMergeCount), z(kMergeCount);
    materialize_points({.param = param_,
                        .element = kMergeElement,
                        .weights = weights_.data(),
                        .steps = steps_,
                        .deferred = kWindow,
                        .merges = false,
                        .sum = all,
                        .step = &next,
                        .compute = DType::f32,
                        .plain = reinterpret_cast<std::byte*>(plain.data()),
                        .probes = reinterpret_cast<std::byte*>(points.data())},
                       *stream_);
    EXPECT_TRUE(weights_ == kept);
    EXPECT_TRUE(plain == numbers);
    const NoiseRun run = noise_run(next.perturb().noise, next.seed, param_.spec, kMergeElement, 0, kMergeCount);
    if (moves(param_, next))
        write_direction(run, noise_term(next.perturb().noise, run, next.step, 0, options().zo_eps), WeightType::f32,
                        z.data(), *stream_);
    for (int64_t i = 0; i < kMergeCount; ++i) {
        if (is_masked(at(i))) z[at(i)] = 0;
        ASSERT_EQ(points[at(i)], numbers[at(i)] + z[at(i)]) << i;
        ASSERT_EQ(points[at(kMergeCount + i)], numbers[at(i)] - z[at(i)]) << i;
    }
}

// Behind the window: one of the two neighbours, right in the mean; and the same from a log.
TEST_P(Merged, FoldsAWindowByOneRounding) {
    if (param_.perturb.merge == Merge::never) GTEST_SKIP() << "nothing is merged";
    const std::vector<float> numbers = read(kMergeCount);
    std::vector<std::byte> logged = weights_;
    update_by_steps({param_, kMergeElement, kMergeCount, logged.data()}, steps_, kWindow, *stream_);
    const StepParams next = step(kWindow);
    materialize_points({.param = param_,
                        .element = kMergeElement,
                        .weights = weights_.data(),
                        .steps = steps_,
                        .deferred = kWindow,
                        .step = &next},
                       *stream_);
    EXPECT_TRUE(weights_ == logged);
    std::vector<float> merged(kMergeCount), nearest(kMergeCount);
    decode_kept(param_.storage, weights_, 0, merged);
    std::vector<std::byte> bytes(weights_.size());
    encode_kept(param_, numbers, bytes);
    decode_kept(param_.storage, bytes, 0, nearest);
    double error = 0, spread = 0;
    for (int64_t i = 0; i < kMergeCount; ++i) {
        const double off = static_cast<double>(merged[at(i)]) - numbers[at(i)];
        const double least = std::abs(static_cast<double>(nearest[at(i)]) - numbers[at(i)]);
        // Half of what lies between its neighbours is the most that the nearest is off; 8 % where a scale ends.
        ASSERT_LE(std::abs(off),
                  std::abs(numbers[at(i)]) * (param_.storage.dtype == DType::f8_e4m3 ? 0.126 : 8e-3) + 2e-5);
        error += off;
        spread += off * off;
        ASSERT_GE(std::abs(off) + 1e-9, least);
    }
    if (param_.storage.dtype == DType::f32) {
        EXPECT_TRUE(merged == numbers);
    } else {
        EXPECT_LT(std::abs(error), 5 * std::sqrt(spread));
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Merged,
                         testing::Values(MergeCase{"f32", DType::f32}, MergeCase{"bf16"}, MergeCase{"f16", DType::f16},
                                         MergeCase{"f8", DType::f8_e4m3},
                                         MergeCase{"both_kept", DType::bf16, Merge::per_window, true},
                                         MergeCase{"dropped", DType::bf16, Merge::per_window, false, true, 0.5},
                                         MergeCase{"masked", DType::bf16, Merge::per_window, false, true, 0, 0.02f},
                                         MergeCase{"vector", DType::bf16, Merge::per_window, false, false},
                                         MergeCase{"never", DType::bf16, Merge::never, true},
                                         MergeCase{"never_f32", DType::f32, Merge::never, true},
                                         MergeCase{"never_dropped", DType::bf16, Merge::never, true, true, 0.5}),
                         [](const auto& info) { return info.param.name; });

TEST(FoldingOptions, AreRefusedWhereThereIsNoSum) {
    const auto refusal = [](MethodOptions options) -> std::string {
        try {
            make_recipe("zeroth_order", options);
        } catch (const UserError& error) {
            return error.what();
        }
        return "";
    };
    MethodOptions window{.noise = NoiseKind::low_rank, .noise_window = 50, .merge = Merge::per_window};
    EXPECT_EQ(refusal(window), "");
    EXPECT_EQ(make_recipe("forward_gradient", window).merge_window, 50);
    MethodOptions never{
        .noise = NoiseKind::low_rank, .noise_window = 0, .noise_keeps_left = true, .merge = Merge::never};
    EXPECT_EQ(refusal(never), "");
    const auto expect = [&](MethodOptions options, const char* hint) {
        EXPECT_NE(refusal(options).find(hint), std::string::npos) << refusal(options);
    };
    for (const MethodOptions& each : {window, never}) {
        MethodOptions other = each;
        other.noise = NoiseKind::gaussian;
        expect(other, "low_rank");
        other = each;
        other.moments = NoiseMoments::first;
        expect(other, "sgd");
    }
    window.noise_window = 1;
    expect(window, "noise_window");
    window.noise_window = kMergeWindowMax + 1;
    expect(window, "noise_window");
    never.noise_window = 50;
    expect(never, "noise_window: 0");
    never.noise_window = 0;
    never.noise_keeps_left = false;
    expect(never, "noise_kept: both");
}

}  // namespace
}  // namespace windlass
