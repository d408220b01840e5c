// LOMO and AdaLomo against their formulas in double precision, and the same bits however they are computed.
#include <algorithm>

#include "base/math.h"
#include "device/cpu/isa.h"
#include "tests/unit/method/lomo_param.h"

namespace windlass {
namespace {

using CpuParam = LomoParam<std::vector<std::byte>>;

void update_on_cpu(CpuParam& param, const StepParams& step, int threads = 1, int64_t cut = INT64_MAX) {
    const std::unique_ptr<Device> cpu = make_device({});
    param.update(*cpu, step, threads, cut);
}

// ---- the formulas (README.md) ----

struct Formula {
    int64_t rows, cols;
    bool is_matrix;
    std::vector<double> w, r, c;

    Formula(const Shape& shape, const std::vector<float>& weights)
        : rows(shape.rank() == 2 ? shape[0] : 1),
          cols(shape.rank() == 2 ? shape[1] : shape[0]),
          is_matrix(shape.rank() == 2),
          w(weights.begin(), weights.end()),
          r(static_cast<size_t>(rows)),
          c(static_cast<size_t>(cols)) {}

    static double rms(const std::vector<double>& values) {
        double sum = 0;
        for (const double value : values) sum += value * value;
        return std::sqrt(sum / static_cast<double>(values.size()));
    }
    void lomo(const std::vector<double>& g, double rate, double decay) {
        for (size_t i = 0; i < w.size(); ++i) w[i] = (1 - rate * decay) * w[i] - rate * g[i];
    }
    void adalomo(const std::vector<double>& g, int64_t t, double rate, double decay) {
        const double b = 1 - std::pow(static_cast<double>(t), -0.8);
        std::vector<double> row_mean(r.size()), col_mean(c.size()), u(g.size());
        for (size_t i = 0; i < g.size(); ++i) {
            const double square = g[i] * g[i] + 1e-30;
            row_mean[i / c.size()] += square / static_cast<double>(cols);
            col_mean[i % c.size()] += square / static_cast<double>(rows);
        }
        double mean = 0;
        for (size_t i = 0; i < r.size(); ++i)
            mean += (r[i] = b * r[i] + (1 - b) * row_mean[i]) / static_cast<double>(rows);
        for (size_t j = 0; j < c.size(); ++j) c[j] = b * c[j] + (1 - b) * col_mean[j];
        for (size_t i = 0; i < g.size(); ++i) {
            const double v = is_matrix ? r[i / c.size()] * c[i % c.size()] / mean : c[i];
            u[i] = g[i] / std::sqrt(v);
        }
        const double longest = std::max(1.0, rms(u)), a = rate * std::max(1e-3, rms(w));
        for (size_t i = 0; i < w.size(); ++i) w[i] = (1 - a * decay) * w[i] - a * u[i] / longest;
    }
};

std::vector<double> clipped(std::span<const float> gradient, double clip) {
    std::vector<double> g;
    for (const float each : gradient) g.push_back(clip * each);
    return g;
}

// fp32 weights and moments are rounded once a step, each to 2^-24 of itself, and each step by a few roundings more; so
// the difference is a few of those, of the largest that was in the sum.
constexpr double kFewRoundings = 8 * 0x1p-24;

TEST(Lomo, IsItsFormula) {
    for (const LomoCase& each : lomo_cases()) {
        if (!each.split && each.type != DType::f32) continue;
        SCOPED_TRACE(name_of(each));
        CpuParam param(each, DeviceKind::cpu);
        Formula formula(each.shape, param.weights());
        const bool is_lomo = std::string_view(each.method) == "lomo";
        // Gradients of LOMO are as large as weights: what is left of a weight beside 1e6 says little.
        for (int64_t t = 1; t <= 4; ++t) {
            const double clip = t == 2 ? 0.5 : 1, rate = is_lomo ? 1e-2 : 0.3;
            draw_gradient(static_cast<uint64_t>(t), param.gradient());
            const std::vector<double> g = clipped(param.gradient(), clip);
            const std::vector<double> before = formula.w;
            update_on_cpu(param, param.prepared(t, rate, clip));
            is_lomo ? formula.lomo(g, rate, 0.1) : formula.adalomo(g, t, rate, 0.1);
            const std::vector<float> found = param.weights();
            for (size_t i = 0; i < found.size(); ++i) {
                const double scale = std::abs(before[i]) + std::abs(formula.w[i] - before[i]);
                ASSERT_NEAR(found[i], formula.w[i], kFewRoundings * static_cast<double>(t) * scale)
                    << "step " << t << ", " << i;
                formula.w[i] = found[i];
            }
            if (is_lomo) continue;
            const std::vector<double>& first = formula.is_matrix ? formula.r : formula.c;
            ASSERT_EQ(param.state(0).size(), first.size());
            for (size_t i = 0; i < first.size(); ++i)
                ASSERT_NEAR(param.state(0)[i], first[i], kFewRoundings * first[i]) << "row " << i;
            ASSERT_EQ(param.state(1).size(), formula.is_matrix ? formula.c.size() : 0);
            for (size_t j = 0; j < param.state(1).size(); ++j)
                ASSERT_NEAR(param.state(1)[j], formula.c[j], kFewRoundings * formula.c[j]) << "column " << j;
        }
    }
}

// ---- rounding ----

// By 16 bits of the word that README.md names: up exactly where they carry.
TEST(Lomo, RoundsByTheCounterOfTheElement) {
    const LomoCase as_file{.shape = {3, 200}, .type = DType::bf16, .start = 256 * 9};
    CpuParam param(as_file, DeviceKind::cpu, {});
    draw_gradient(1, param.gradient());
    const std::vector<float> before = param.weights();
    update_on_cpu(param, param.prepared(5, 1e-3));
    const std::vector<float> after = param.weights();
    int up = 0;
    for (size_t i = 0; i < before.size(); ++i) {
        const float exact = before[i] * 1.0f - param.gradient()[i] * 1e-3f;
        const size_t place = i % 128;
        const auto words = philox(11, {.block = static_cast<uint64_t>(as_file.start) / 4 + i / 256 * 64 + place / 4,
                                       .stream = RandomStream::rounding,
                                       .step = 5});
        const uint32_t word = words[place % 4], bits = i % 256 < 128 ? word & 0xffffu : word >> 16;
        const uint32_t rounded = (std::bit_cast<uint32_t>(exact) + bits) & 0xffff0000u;
        ASSERT_EQ(std::bit_cast<uint32_t>(after[i]), rounded) << i;
        up += rounded > (std::bit_cast<uint32_t>(exact) & 0xffff0000u) ? 1 : 0;
    }
    EXPECT_GT(up, 100);
}

// Steps of a fraction of the last place add up: nothing is lost on the average. Rounding to the nearest would lose all.
TEST(Lomo, KeepsStepsThatAreSmallerThanAWeightsLastPlace) {
    constexpr int64_t kCount = 1 << 14, kSteps = 64;
    CpuParam param({.shape = {kCount}, .type = DType::bf16}, DeviceKind::cpu, {});
    param.set_weights(std::vector<float>(kCount, 1.0f));
    std::ranges::fill(param.gradient(), 1.0f);
    constexpr double kRate = 0x1p-13;  // a thirty-second of the distance of numbers from 1/2 to 1
    for (int64_t t = 1; t <= kSteps; ++t) update_on_cpu(param, param.prepared(t, kRate));
    double mean = 0;
    for (const float w : param.weights()) mean += w / kCount;
    // Each rounding deviates by less than 2^-8: the mean of all of 64 by 2^-8 sqrt(64 / 16384) = 2^-12, times four.
    EXPECT_NEAR(mean, 1 - kSteps * kRate, 0x1p-10);
}

// ---- the same bits ----

std::string bytes_after_steps(const LomoCase& each, int threads, int64_t cut = INT64_MAX) {
    CpuParam param(each, DeviceKind::cpu);
    for (int64_t t = 1; t <= 3; ++t) {
        draw_gradient(static_cast<uint64_t>(t), param.gradient());
        update_on_cpu(param, param.prepared(t, 1e-2, t == 2 ? 0.5 : 1), threads, cut);
    }
    return param.bytes();
}

TEST(Lomo, BitsDependOnNeitherThreadsNorInstructionSets) {
    std::vector<LomoCase> cases = lomo_cases();
    cases.push_back({.method = "adalomo", .shape = {300, 1000}});
    cases.push_back({.method = "lomo", .shape = {300, 1000}});
    const Isa widest = detected_isa();
    for (const LomoCase& each : cases) {
        set_cpu_isa(widest);
        const std::string expected = bytes_after_steps(each, 1);
        for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
            if (isa > widest) continue;
            set_cpu_isa(isa);
            for (const int threads : {1, 3}) EXPECT_TRUE(bytes_after_steps(each, threads) == expected) << name_of(each);
        }
        set_cpu_isa(widest);
    }
}

TEST(Lomo, BitsDoNotDependOnCuts) {
    for (const LomoCase& each : lomo_cases())
        EXPECT_TRUE(bytes_after_steps(each, 1, 256) == bytes_after_steps(each, 1)) << name_of(each);
}

// Low halves of a whole parameter come in pieces, as a store has its chunks, and rows end inside of them.
TEST(Adalomo, TakesLowHalvesInPieces) {
    for (const Shape& shape : {Shape{300, 1001}, Shape{3, 70'001}, Shape{150'000}}) {
        const LomoCase one{.method = "adalomo", .shape = shape, .split = true};
        LomoCase pieces = one;
        pieces.low_elements = int64_t{1} << 16;
        CpuParam a(one, DeviceKind::cpu), b(pieces, DeviceKind::cpu);
        for (int64_t t = 1; t <= 2; ++t) {
            for (CpuParam* const each : {&a, &b}) {
                draw_gradient(static_cast<uint64_t>(t), each->gradient());
                update_on_cpu(*each, each->prepared(t, 1e-2), 2);
            }
            EXPECT_TRUE(a.weights() == b.weights()) << shape.to_string();
            EXPECT_TRUE(std::ranges::equal(a.state(0), b.state(0)));
        }
    }
}

}  // namespace
}  // namespace windlass
