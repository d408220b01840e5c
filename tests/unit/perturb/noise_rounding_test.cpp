// What rounding does to weights: nothing where nothing is added, the right thing on the average, and MeZO's drift.
#include <gtest/gtest.h>

#include "tests/unit/method/mezo_walk.h"
#include "tests/unit/op/every_isa.h"
#include "tests/unit/perturb/noise_reference.h"

namespace windlass {
namespace {

void take(const NoiseRun& run, const NoiseStep& step, Stored& weights) {
    const NoisePass pass{.type = weights.type(),
                         .scale_exponent = Stored::kScaleExponent,
                         .weights = weights.at(0),
                         .updated = weights.at(0),
                         .steps = &step,
                         .step_count = 1};
    update_and_probe(run, pass, *make_stream(DeviceKind::cpu, 1));
}

// Every number of the narrow types, and every upper half of an f32, but the NaNs: small ones first, of either sign.
Stored all_numbers(WeightType type) {
    std::vector<uint32_t> patterns;
    for (uint32_t i = 0; i < 0x10000u; ++i) {
        const uint32_t bits = i >> 1 | (i & 1u) << 15;
        patterns.push_back(type == WeightType::f32 ? bits << 16 | (bits & 0x7fffu) : bits);
    }
    Stored numbers(type, std::ssize(patterns));
    int64_t count = 0;
    for (const uint32_t pattern : patterns) {
        numbers.set_bits(count, pattern);
        if (!std::isnan(numbers[count])) ++count;
    }
    for (int64_t i = count; i < numbers.count(); ++i) numbers.set_bits(i, 0);
    return numbers;
}

TEST(NoiseRounding, AStepOfNothingKeepsEveryBit) {
    for (const NoiseKind kind : kDirectionKinds) {
        for (const WeightType type : kStoredTypes) {
            Stored weights = all_numbers(type);
            const Stored before = weights;
            Directions of(kind, 4 * 1237, weights.count(), 0);
            if (kind == NoiseKind::low_rank) of.run.count = Directions::kRows * Directions::kCols;
            for (const double nothing : {0.0, -0.0}) {
                const std::vector<NoiseTerm> terms = {of.term(1, 0, nothing), of.term(1, 1, nothing)};
                on_every_isa([&] {
                    for (uint32_t step = 1; step < 20; ++step)
                        take(of.run, {step, 0.0f, terms.data(), step % 3}, weights);
                });
            }
            for (int64_t i = 0; i < weights.count(); ++i)
                ASSERT_EQ(weights.bits(i), before.bits(i)) << static_cast<int>(type) << " " << before[i];
        }
    }
}

TEST(NoiseRounding, NaNsStay) {
    for (const WeightType type : kStoredTypes) {
        Stored weights(type, 4096);
        for (int64_t i = 0; i < weights.count(); ++i) {
            const uint32_t payload = static_cast<uint32_t>(i) % 127 + 1;
            switch (type) {
                case WeightType::f32:
                    weights.set_bits(i, 0x7f80ffffu | payload << 16);
                    break;
                case WeightType::bf16:
                    weights.set_bits(i, 0x7f80u | payload);
                    break;
                case WeightType::f16:
                    weights.set_bits(i, 0x7c00u | payload << 3 | 7u);
                    break;
                case WeightType::f8:
                    weights.set_bits(i, 0x7fu | (payload & 1u) << 7);
                    break;
                case WeightType::nf4:
                    FAIL() << "has none, and is not stored to";
            }
        }
        const Directions of(NoiseKind::gaussian, 0, weights.count());
        const NoiseTerm term = of.term(1, 0, 1e-3);
        Stored plus(WeightType::bf16, weights.count());
        const NoisePass probe{.type = type,
                              .scale_exponent = Stored::kScaleExponent,
                              .weights = weights.at(0),
                              .probe = &term,
                              .probe_type = WeightType::bf16,
                              .plus = plus.at(0)};
        on_every_isa([&] {
            update_and_probe(of.run, probe, *make_stream(DeviceKind::cpu, 1));
            take(of.run, {1, 0.1f, &term, 1}, weights);
            for (int64_t i = 0; i < weights.count(); ++i) {
                ASSERT_TRUE(std::isnan(plus[i])) << static_cast<int>(type) << " " << i;
                ASSERT_TRUE(std::isnan(weights[i])) << static_cast<int>(type) << " " << i;
            }
        });
    }
}

// 60000 and 20000 apart from it: 80000 is beyond the largest number, 65504; 65520 is half way between it and 65536.
TEST(NoiseRounding, BeyondTheLargestF16IsInfinity) {
    constexpr int64_t kCount = 4096;
    const Directions of(NoiseKind::rademacher, 0, kCount);
    for (const float step : {20'000.0f, 5520.0f}) {
        const NoiseTerm term = of.term(1, 0, step);
        on_every_isa([&] {
            Stored weights(WeightType::f16, kCount);
            for (int64_t i = 0; i < kCount; ++i) weights.set(i, i % 2 == 0 ? 60'000.0f : -60'000.0f);
            const Stored before = weights;
            take(of.run, {1, 0.0f, &term, 1}, weights);
            for (int64_t i = 0; i < kCount; ++i) {
                const float x = before[i] - step * static_cast<float>(of.reference(term, i));
                ASSERT_EQ(weights[i], rounded_reference(WeightType::f16, x, rounding_reference(of.run.seed, 1, i)));
            }
        });
    }
}

// 448 is the largest number, and numbers there are 32 apart.
TEST(NoiseRounding, BeyondTheLargestF8IsTheLargest) {
    constexpr int64_t kCount = 4096;
    const float largest = std::ldexp(448.0f, Stored::kScaleExponent);
    const Directions of(NoiseKind::rademacher, 0, kCount);
    for (const float step : {0.004f, 0.01f, 1e30f}) {
        const NoiseTerm term = of.term(1, 0, step);
        on_every_isa([&] {
            Stored weights(WeightType::f8, kCount);
            for (int64_t i = 0; i < kCount; ++i) weights.set(i, i % 2 == 0 ? largest : -largest);
            const Stored before = weights;
            take(of.run, {1, 0.0f, &term, 1}, weights);
            for (int64_t i = 0; i < kCount; ++i) {
                const float x = before[i] - step * static_cast<float>(of.reference(term, i));
                ASSERT_EQ(weights[i], rounded_reference(WeightType::f8, x, rounding_reference(of.run.seed, 1, i)));
                if (std::abs(x) > largest) {
                    ASSERT_EQ(std::abs(weights[i]), largest);
                }
            }
        });
    }
}

// The share of a step of -c z that weights of 0.02 take, along z.
double realised(NoiseKind kind, WeightType type, double c, uint32_t steps) {
    constexpr int64_t kCount = 1 << 21;
    Directions of(NoiseKind::gaussian, 0, kCount);
    of.run.kind = kind;
    Stored weights(type, kCount);
    Random random(2, RandomStream::test);
    for (int64_t i = 0; i < kCount; ++i) weights.set(i, 0.02f * random.normal());
    const Stored before = weights;
    const NoiseTerm term = of.term(1, 0, c);
    std::vector<float> z(kCount);
    NoiseTerm unit = term;
    unit.coefficient = 1;
    write_direction(of.run, unit, WeightType::f32, z.data(), *make_stream(DeviceKind::cpu, 1));
    for (uint32_t step = 1; step <= steps; ++step) take(of.run, {step, 0.0f, &term, 1}, weights);
    double along = 0, square = 0;
    for (int64_t i = 0; i < kCount; ++i) {
        const double zi = z[static_cast<size_t>(i)];
        along += zi * (static_cast<double>(before[i]) - weights[i]);
        square += zi * zi;
    }
    return along / (square * c * steps);
}

// Of one weight, whose neighbours are s apart, a step of 1e-6 moves sqrt(1e-6 s) at random, ten times itself in bf16:
// over four times 2^21 weights the mean's standard deviation is 0.0035. Rounding to the nearest would give 0.03. In f8
// neighbours are up to sixteen times as far apart, and sixteen steps make it 0.007.
TEST(NoiseRounding, TinyStepsAreTakenInFull) {
    for (const NoiseKind kind : {NoiseKind::gaussian, NoiseKind::rademacher}) {
        EXPECT_NEAR(realised(kind, WeightType::bf16, 1e-6, 4), 1.0, 0.02);
        EXPECT_NEAR(realised(kind, WeightType::f16, 1e-6, 4), 1.0, 0.02);
        EXPECT_NEAR(realised(kind, WeightType::f16, 1e-7, 16), 1.0, 0.02);
        EXPECT_NEAR(realised(kind, WeightType::f8, 1e-6, 16), 1.0, 0.02);
        EXPECT_NEAR(realised(kind, WeightType::f8, 1e-4, 2), 1.0, 0.02);
        EXPECT_NEAR(realised(kind, WeightType::f8, 1e-3, 2), 1.0, 0.02);
    }
}

// Root mean square distance of weights of 0.02 from where they were, after cycles of +eps, -2 eps, +eps.
double drift(WeightType type, int cycles) {
    constexpr int64_t kCount = 1 << 14;
    const Directions of(NoiseKind::gaussian, 0, kCount);
    const MezoWalk walk(type);
    Stored weights(type, kCount);
    std::vector<float> z(kCount);
    Random random(2, RandomStream::test);
    for (int64_t i = 0; i < kCount; ++i) weights.set(i, 0.02f * random.normal());
    const Stored before = weights;
    const auto stream = make_stream(DeviceKind::cpu, 1);
    for (int cycle = 0; cycle < cycles; ++cycle) {
        const NoiseTerm term = of.term(static_cast<uint32_t>(cycle), 0, 1);
        write_direction(of.run, term, WeightType::f32, z.data(), *stream);
        for (const double scale : {1.0, -2.0, 1.0}) walk.perturb(z, scale, 1e-3, weights);
    }
    double square = 0;
    for (int64_t i = 0; i < kCount; ++i) square += std::pow(static_cast<double>(weights[i]) - before[i], 2);
    return std::sqrt(square / kCount);
}

// A simulation apart from this code, with other random numbers, gave these figures to two digits: the walk that runs
// are compared with is MeZO's.
TEST(MezoWalk, DriftsAsItsProgramDoes) {
    EXPECT_NEAR(drift(WeightType::bf16, 1), 7.8e-5, 0.78e-5);
    EXPECT_NEAR(drift(WeightType::bf16, 200), 1.1e-3, 0.11e-3);
    EXPECT_NEAR(drift(WeightType::f16, 1), 9.8e-6, 0.98e-6);
    EXPECT_NEAR(drift(WeightType::f16, 200), 1.4e-4, 0.14e-4);
}

}  // namespace
}  // namespace windlass
