// Directions of low rank whose factors are drawn where they are used: what they are made of, and that no cut shows.
#include "perturb/factors.h"

#include <gtest/gtest.h>

#include "device/cpu/isa.h"
#include "tests/unit/perturb/noise_reference.h"

namespace windlass {
namespace {

constexpr uint64_t kSeed = 77;
constexpr int64_t kStart = 256 * 11;  // of the parameter, in the model

ParamSpec matrix(int64_t rows, int64_t cols) {
    return {.name = "w", .shape = {rows, cols}};
}

constexpr Noise kLazy{.kind = NoiseKind::low_rank, .rank = 3, .window = 4};
constexpr Noise kKept{.kind = NoiseKind::low_rank, .rank = 3, .window = 4, .keeps_left = true};

NoiseRun whole(const Noise& noise, const ParamSpec& param) {
    return noise_run(noise, kSeed, param, kStart, 0, param.numel());
}

std::vector<float> drawn(const Noise& noise, const ParamSpec& param, int64_t step, int direction) {
    const NoiseRun run = whole(noise, param);
    std::vector<float> z(static_cast<size_t>(run.count));
    write_direction(run, noise_term(noise, run, step, direction, 1), WeightType::f32, z.data(),
                    *make_stream(DeviceKind::cpu, 2));
    return z;
}

// u_k v_k^T of the README's counters, in double precision; of a kept u times the step's own number for rank k.
double reference(const Noise& noise, const ParamSpec& param, int64_t step, int direction, int64_t i) {
    const int64_t rows = param.shape[0], cols = param.shape[1];
    const auto first = static_cast<uint32_t>(step - (step - 1) % noise.window), now = static_cast<uint32_t>(step);
    const auto index = static_cast<uint32_t>(direction);
    double sum = 0;
    for (int64_t k = 0; k < noise.rank; ++k) {
        const double u =
            gaussian_reference(kSeed, noise.keeps_left ? first : now, index, kStart + k * rows + i / cols, 2);
        const double v = gaussian_reference(kSeed, first, index, kStart + k * cols + i % cols, 3);
        sum += u * v * (noise.keeps_left ? gaussian_reference(kSeed, now, index, kStart + k) : 1.0);
    }
    return sum / std::sqrt(static_cast<double>(noise.rank));
}

// Some roundings of 6e-8 and the polynomials' 2e-7, of products of numbers that are rarely above 4.
TEST(Factors, AreOfTheStepOrOfItsWindowsFirst) {
    const ParamSpec param = matrix(37, 53);
    for (const Noise& noise : {kLazy, kKept}) {
        for (const int64_t step : {1, 4, 5, 7}) {
            const std::vector<float> z = drawn(noise, param, step, 2);
            for (int64_t i = 0; i < param.numel(); ++i)
                ASSERT_NEAR(z[static_cast<size_t>(i)], reference(noise, param, step, 2, i), 3e-5) << step << " " << i;
        }
    }
}

TEST(Factors, OfAWindowBeginWithItsFirstStep) {
    EXPECT_EQ(window_start(1, 50), 1);
    EXPECT_EQ(window_start(50, 50), 1);
    EXPECT_EQ(window_start(51, 50), 51);
    EXPECT_EQ(window_start(123, 1), 123);
    EXPECT_EQ(window_start(123'456, 0), 1);
}

TEST(Factors, HaveNoMoreRanksThanTheShorterSide) {
    EXPECT_EQ(direction_rank(kLazy, {2, 50}), 2);
    EXPECT_EQ(direction_rank(kLazy, {50, 1}), 1);
    EXPECT_EQ(direction_rank(kLazy, {50, 60}), 3);
    const std::vector<float> z = drawn(kLazy, matrix(2, 50), 1, 0);
    Noise two = kLazy;
    two.rank = 2;
    EXPECT_EQ(z, drawn(two, matrix(2, 50), 1, 0));
}

TEST(Factors, AreForMatricesOnly) {
    const ParamSpec vector{.name = "b", .shape = {1000}};
    EXPECT_EQ(direction_rank(kLazy, vector.shape), 0);
    const NoiseRun run = whole(kLazy, vector);
    EXPECT_EQ(run.kind, NoiseKind::gaussian);
    EXPECT_EQ(drawn(kLazy, vector, 3, 1), drawn({}, vector, 3, 1));
}

// E z^2 = 1. The mean over a matrix has a variance of about 2/rows + 2/cols over the rank, and of 2 over the rank more
// where ranks are scaled; 5 deviations of the mean over 400 directions.
TEST(Factors, GiveNumbersOfVarianceOne) {
    const ParamSpec param = matrix(30, 20);
    for (const bool keeps_left : {false, true}) {
        const Noise noise{.kind = NoiseKind::low_rank, .rank = 2, .window = 1, .keeps_left = keeps_left};
        double sum = 0;
        for (int64_t step = 1; step <= 400; ++step)
            for (const float z : drawn(noise, param, step, 0)) sum += double{z} * z;
        const double variance = (2.0 / 30 + 2.0 / 20 + (keeps_left ? 2.0 : 0.0)) / 2;
        EXPECT_NEAR(sum / (400.0 * 600), 1, 5 * std::sqrt(variance / 400));
    }
}

// ---- passes ----

// Wider and higher than a part, so that rows are cut.
class DrawnPass : public testing::TestWithParam<bool> {
  protected:
    static constexpr int64_t kRows = 140, kCols = 1'100;
    static constexpr int kSteps = 6, kDirections = 3;

    DrawnPass() {
        for (int s = 0; s < kSteps; ++s) {
            for (int d = 0; d < kDirections; ++d)
                terms_.push_back(noise_term(noise_, run_, 2 + s, d, 1e-3 * (1 + d) / (1 + s)));
        }
        for (int s = 0; s < kSteps; ++s)
            steps_.push_back({static_cast<uint32_t>(2 + s), s % 2 == 0 ? 1e-4f : 0.0f, terms_.data() + s * kDirections,
                              kDirections});
    }
    ~DrawnPass() override { set_cpu_isa(lowered_); }

    struct Result {
        Stored weights, plus, minus;
        bool operator==(const Result&) const = default;
    };
    Result before() const {
        return {weights_of(WeightType::bf16, run_.count), Stored(WeightType::bf16, run_.count),
                Stored(WeightType::bf16, run_.count)};
    }
    // Elements [first, first + count), steps [step, step + steps), and the probe if it is the last of them.
    void pass(Result& result, int64_t first, int64_t count, int64_t step, int64_t steps, int threads) {
        NoiseRun part = noise_run(noise_, kSeed, param_, kStart, first, count);
        NoisePass pass{.type = WeightType::bf16,
                       .weights = result.weights.at(first),
                       .updated = result.weights.at(first),
                       .steps = steps_.data() + step,
                       .step_count = steps};
        if (step + steps == kSteps) {
            pass.probe = &probe_;
            pass.probe_type = WeightType::bf16;
            pass.plus = result.plus.at(first);
            pass.minus = result.minus.at(first);
        }
        update_and_probe(part, pass, *make_stream(DeviceKind::cpu, threads));
    }
    Result at_once(int threads) {
        Result result = before();
        pass(result, 0, run_.count, 0, kSteps, threads);
        return result;
    }

    const Isa lowered_ = cpu_isa();
    const Noise noise_{.kind = NoiseKind::low_rank, .rank = 2, .window = 4, .keeps_left = GetParam()};
    const ParamSpec param_ = matrix(kRows, kCols);
    const NoiseRun run_ = whole(noise_, param_);
    std::vector<NoiseTerm> terms_;
    std::vector<NoiseStep> steps_;
    const NoiseTerm probe_ = noise_term(noise_, run_, 8, 1, 1e-2);
};

TEST_P(DrawnPass, GivesTheSameBitsInAnyPiecesOnEveryPath) {
    set_cpu_isa(Isa::baseline);
    const Result expected = at_once(1);
    EXPECT_FALSE(expected.weights == before().weights);
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
        if (isa > detected_isa()) continue;
        SCOPED_TRACE(isa_name(isa));
        set_cpu_isa(isa);
        EXPECT_TRUE(at_once(3) == expected);
        Result pieces = before();
        for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 1}, {1, 4'998}, {4'999, 75'003}}) {
            for (int64_t step = 0; step < kSteps; ++step) pass(pieces, first, count, step, 1, 2);
        }
        pass(pieces, 80'002, run_.count - 80'002, 0, 4, 1);
        pass(pieces, 80'002, run_.count - 80'002, 4, 2, 2);
        EXPECT_TRUE(pieces == expected);
    }
}

TEST_P(DrawnPass, GivesTheBitsOfFactorsThatAreGiven) {
    const auto stream = make_stream(DeviceKind::cpu, 1);
    std::vector<std::vector<float>> factors;
    const auto give = [&](NoiseTerm term) {
        NoiseTerm one = term;
        one.coefficient = 1;  // left alone, so that the kernel multiplies as it does with drawn ones
        std::vector<float>& left = factors.emplace_back(static_cast<size_t>(run_.rank * kRows));
        term.u = left.data();
        std::vector<float>& right = factors.emplace_back(static_cast<size_t>(run_.rank * kCols));
        write_factors(run_, one, factors[factors.size() - 2].data(), right.data(), *stream);
        term.v = right.data();
        return term;
    };
    std::vector<NoiseTerm> given;
    for (const NoiseTerm& term : terms_) given.push_back(give(term));
    std::vector<NoiseStep> steps = steps_;
    for (size_t s = 0; s < steps.size(); ++s) steps[s].terms = given.data() + s * kDirections;
    Result result = before();
    const NoiseTerm probe = give(probe_);
    update_and_probe(run_,
                     {.type = WeightType::bf16,
                      .weights = result.weights.at(0),
                      .updated = result.weights.at(0),
                      .steps = steps.data(),
                      .step_count = kSteps,
                      .probe = &probe,
                      .probe_type = WeightType::bf16,
                      .plus = result.plus.at(0),
                      .minus = result.minus.at(0)},
                     *stream);
    EXPECT_TRUE(result == at_once(2));
}

// More steps than a thread has room for factors of.
TEST_P(DrawnPass, TakesAnyNumberOfSteps) {
    constexpr int kMany = 200;
    ASSERT_GT(kMany, terms_at_once(run_.rank));
    std::vector<NoiseTerm> terms;
    for (int s = 0; s < kMany; ++s) terms.push_back(noise_term(noise_, run_, 1 + s, 0, 1e-3));
    std::vector<NoiseStep> steps;
    for (int s = 0; s < kMany; ++s)
        steps.push_back({static_cast<uint32_t>(1 + s), 0.0f, &terms[static_cast<size_t>(s)], 1});
    const NoiseRun part = noise_run(noise_, kSeed, param_, kStart, 7, 10'000);
    const auto stream = make_stream(DeviceKind::cpu, 2);
    Stored once = weights_of(WeightType::bf16, part.count), one_by_one = once;
    const auto take = [&](Stored& weights, const NoiseStep* from, int64_t count) {
        update_and_probe(part,
                         {.type = WeightType::bf16,
                          .weights = weights.at(0),
                          .updated = weights.at(0),
                          .steps = from,
                          .step_count = count},
                         *stream);
    };
    take(once, steps.data(), kMany);
    for (const NoiseStep& step : steps) take(one_by_one, &step, 1);
    EXPECT_EQ(once, one_by_one);
}

INSTANTIATE_TEST_SUITE_P(Kept, DrawnPass, testing::Bool(),
                         [](const auto& info) { return info.param ? "both" : "right"; });

// Sixty-four directions of rank sixty-four: parts become small, nothing else.
TEST(Factors, ThereIsRoomForTheLargestSteps) {
    const ParamSpec param = matrix(70, 130);
    const Noise noise{.kind = NoiseKind::low_rank, .rank = kDirectionRankMax, .window = 1};
    const NoiseRun run = whole(noise, param);
    std::vector<NoiseTerm> terms;
    for (int d = 0; d < kDirectionsMax; ++d) terms.push_back(noise_term(noise, run, 5, d, 1e-3));
    const NoiseStep step{5, 0.0f, terms.data(), std::ssize(terms)};
    std::vector<float> weights(static_cast<size_t>(run.count)), expected(weights.size()), z(weights.size());
    const auto stream = make_stream(DeviceKind::cpu, 2);
    const NoiseTerm probe = noise_term(noise, run, 6, 0, 1);
    update_and_probe(run,
                     {.type = WeightType::f32,
                      .weights = weights.data(),
                      .updated = weights.data(),
                      .steps = &step,
                      .step_count = 1,
                      .probe = &probe,
                      .probe_type = WeightType::f32,
                      .plus = z.data()},
                     *stream);
    for (const NoiseTerm& term : terms) {
        write_direction(run, term, WeightType::f32, z.data(), *stream);
        for (size_t i = 0; i < z.size(); ++i) expected[i] -= z[i];
    }
    // A sum of 4096 products near 1e-4, each rounded to 6e-8 of the sum; in two orders.
    for (size_t i = 0; i < z.size(); ++i) ASSERT_NEAR(weights[i], expected[i], 2e-7) << i;
}

}  // namespace
}  // namespace windlass
