// Directions and passes against their formulas one element at a time, and against themselves however they are computed.
#include <gmock/gmock.h>

#include "tests/unit/op/every_isa.h"
#include "tests/unit/perturb/noise_reference.h"

namespace windlass {
namespace {

using testing::Each;

// Two steps of two and one directions, and a probe: what tests take through a pass.
struct Steps {
    std::vector<NoiseTerm> first, second;
    std::vector<NoiseStep> steps;
    NoiseTerm probe;

    explicit Steps(const Directions& of)
        : first{of.term(8, 0, 3e-4), of.term(8, 1, -1e-4)},
          second{of.term(9, 0, 2e-5)},
          steps{{8, 1e-3f, first.data(), 2}, {9, 0.0f, second.data(), 1}},
          probe(of.term(10, 2, 1e-3)) {}
    Steps(const Steps&) = delete;

    NoisePass pass(Stored& weights, Stored* plus = nullptr, Stored* minus = nullptr) const {
        return {.type = weights.type(),
                .scale_exponent = Stored::kScaleExponent,
                .weights = weights.at(0),
                .updated = weights.at(0),
                .steps = steps.data(),
                .step_count = 2,
                .probe = plus != nullptr ? &probe : nullptr,
                .probe_type = plus != nullptr ? plus->type() : WeightType::f32,
                .plus = plus != nullptr ? plus->at(0) : nullptr,
                .minus = minus != nullptr ? minus->at(0) : nullptr};
    }
};

std::vector<float> direction(const NoiseRun& run, const NoiseTerm& term) {
    std::vector<float> z(static_cast<size_t>(run.count));
    write_direction(run, term, WeightType::f32, z.data(), *make_stream(DeviceKind::cpu, 1));
    return z;
}

void pass_over(const NoiseRun& run, const NoisePass& pass, int threads = 1) {
    update_and_probe(run, pass, *make_stream(DeviceKind::cpu, threads));
}

// The radius is a square root of a sum of two products with a polynomial of relative error 1.7e-7; that and a few
// roundings of 6e-8 make less than 4e-7, of the radius: at most 6.6.
TEST(Noise, GaussianFollowsItsFormula) {
    constexpr double kTolerance = 6.6 * 4e-7;
    for (const int64_t start : {int64_t{0}, int64_t{4} << 31, (int64_t{1} << 48) - 5000}) {
        const Directions of(NoiseKind::gaussian, start, 5000);
        const NoiseTerm term = of.term(7, 3, 1);
        const std::vector<float> z = direction(of.run, term);
        for (int64_t i = 0; i < of.run.count; ++i)
            ASSERT_NEAR(z[static_cast<size_t>(i)], of.reference(term, i), kTolerance) << start << " + " << i;
    }
}

TEST(Noise, RademacherIsBitsOfWords) {
    const Directions of(NoiseKind::rademacher);
    const NoiseTerm term = of.term(7, 3, 1);
    const std::vector<float> z = direction(of.run, term);
    for (int64_t i = 0; i < of.run.count; ++i) ASSERT_EQ(z[static_cast<size_t>(i)], of.reference(term, i)) << i;
}

// Three products of f32 and their sum.
TEST(Noise, LowRankIsTheProductOfItsFactors) {
    const Directions of(NoiseKind::low_rank);
    const NoiseTerm term = of.term(7, 3, 1);
    const std::vector<float> z = direction(of.run, term);
    for (int64_t i = 0; i < of.run.count; ++i) ASSERT_NEAR(z[static_cast<size_t>(i)], of.reference(term, i), 5e-6) << i;
}

TEST(Noise, FactorsHaveCountersOfTheirOwn) {
    const Directions of(NoiseKind::low_rank);
    const int64_t start = of.run.element - of.run.first;  // of the matrix
    for (const auto& [kind, number, length] : {std::tuple{NoiseKind::left_factor, 2, Directions::kRows},
                                               std::tuple{NoiseKind::right_factor, 3, Directions::kCols}}) {
        const NoiseRun run = factor_run(of.run, kind);
        EXPECT_EQ(run.count, Directions::kRank * length);
        const std::vector<float> entries = direction(run, of.term(7, 3, std::sqrt(3.0)));
        for (int64_t i = 0; i < run.count; ++i)
            ASSERT_NEAR(entries[static_cast<size_t>(i)],
                        gaussian_reference(run.seed, 7, 3, start + i, static_cast<uint64_t>(number)), 3e-6);
    }
}

TEST(Noise, TangentsRoundToTheNearest) {
    for (const NoiseKind kind : kDirectionKinds) {
        const Directions of(kind);
        const NoiseTerm term = of.term(7, 3, 0.37);
        Stored narrow(WeightType::bf16, of.run.count);
        write_direction(of.run, term, WeightType::bf16, narrow.at(0), *make_stream(DeviceKind::cpu, 1));
        const std::vector<float> wide = direction(of.run, term);
        for (int64_t i = 0; i < of.run.count; ++i)
            ASSERT_EQ(narrow[i], nearest_reference(WeightType::bf16, wide[static_cast<size_t>(i)]));
    }
}

TEST(Noise, ProbesAreWeightsAndDirectionsRoundedToTheNearest) {
    for (const NoiseKind kind : kDirectionKinds) {
        const Directions of(kind);
        const NoiseTerm probe = of.term(7, 3, 1e-3);
        const std::vector<float> moved = direction(of.run, probe);
        for (const WeightType type : kStoredTypes) {
            for (const WeightType out : {WeightType::f32, WeightType::bf16}) {
                Stored weights = weights_of(type, of.run.count), plus(out, of.run.count), minus = plus, alone = plus;
                const Stored before = weights;
                NoisePass pass{.type = type,
                               .scale_exponent = Stored::kScaleExponent,
                               .weights = weights.at(0),
                               .probe = &probe,
                               .probe_type = out};
                pass.plus = plus.at(0);
                pass.minus = minus.at(0);
                pass_over(of.run, pass);
                EXPECT_EQ(weights, before);
                for (int64_t i = 0; i < of.run.count; ++i) {
                    const float c_z = moved[static_cast<size_t>(i)];
                    ASSERT_EQ(plus[i], nearest_reference(out, weights[i] + c_z)) << i;
                    ASSERT_EQ(minus[i], nearest_reference(out, weights[i] - c_z)) << i;
                }
                pass.minus = nullptr;
                pass.plus = alone.at(0);
                pass_over(of.run, pass);
                EXPECT_EQ(alone, plus);
                pass.plus = nullptr;
                pass.minus = alone.at(0);
                pass_over(of.run, pass);
                EXPECT_EQ(alone, minus);
            }
        }
    }
}

TEST(Noise, UpdatesAddTheirTermsInOrderAndRoundAtRandom) {
    for (const NoiseKind kind : kDirectionKinds) {
        const Directions of(kind);
        const Steps steps(of);
        for (const WeightType type : kStoredTypes) {
            Stored weights = weights_of(type, of.run.count);
            const Stored before = weights;
            pass_over(of.run, steps.pass(weights));
            std::vector<float> sums(static_cast<size_t>(of.run.count)), x = sums;
            for (int64_t i = 0; i < of.run.count; ++i) x[static_cast<size_t>(i)] = before[i];
            for (const NoiseStep& step : steps.steps) {
                std::fill(sums.begin(), sums.end(), 0.0f);
                // A direction of factors is added rank by rank.
                for (int64_t d = 0; d < step.term_count; ++d) {
                    for (int64_t k = 0; k < std::max(of.run.rank, int64_t{1}); ++k) {
                        NoiseRun run = of.run;
                        NoiseTerm term = step.terms[d];
                        run.rank = 1;
                        if (kind == NoiseKind::low_rank) term.u += k * run.rows, term.v += k * run.cols;
                        const std::vector<float> c_z = direction(run, term);
                        for (size_t i = 0; i < sums.size(); ++i) sums[i] += c_z[i];
                    }
                }
                for (size_t i = 0; i < sums.size(); ++i) {
                    const float moved = x[i] - sums[i], shrink = step.decay * x[i];
                    const int64_t element = of.run.element + static_cast<int64_t>(i);
                    x[i] = rounded_reference(type, step.decay == 0 ? moved : moved - shrink,
                                             rounding_reference(of.run.seed, step.step, element));
                }
            }
            for (int64_t i = 0; i < of.run.count; ++i)
                ASSERT_EQ(std::bit_cast<uint32_t>(weights[i]), std::bit_cast<uint32_t>(x[static_cast<size_t>(i)]))
                    << static_cast<int>(type) << " " << i << " " << before[i];
        }
    }
}

// f32 weights of 0.02: every operation rounds by at most 2^-24 of numbers below 1/8, and there are fewer than 12.
TEST(Noise, UpdatesFollowTheirFormulaInDoublePrecision) {
    for (const NoiseKind kind : kDirectionKinds) {
        const Directions of(kind);
        const Steps steps(of);
        Stored weights = weights_of(WeightType::f32, of.run.count), plus = weights, minus = weights;
        const Stored before = weights;
        pass_over(of.run, steps.pass(weights, &plus, &minus));
        for (int64_t i = 0; i < of.run.count; ++i) {
            if (i % 97 == 0) continue;
            const double w = before[i];
            const double once =
                w - 3e-4 * of.reference(steps.first[0], i) + 1e-4 * of.reference(steps.first[1], i) - 1e-3 * w;
            const double twice = once - 2e-5 * of.reference(steps.second[0], i);
            const double probe = 1e-3 * of.reference(steps.probe, i);
            constexpr double kTolerance = 12 * 0x1p-27;
            ASSERT_NEAR(weights[i], twice, kTolerance) << i;
            ASSERT_NEAR(plus[i], twice + probe, kTolerance) << i;
            ASSERT_NEAR(minus[i], twice - probe, kTolerance) << i;
        }
    }
}

// Adding them in another order rounds otherwise.
TEST(Noise, UpdatesTakeManyTermsInTheirOrder) {
    constexpr int kTerms = 64;
    for (const NoiseKind kind : {NoiseKind::gaussian, NoiseKind::rademacher}) {
        const Directions of(kind, 1236, 6000);
        std::vector<NoiseTerm> terms;
        for (uint32_t d = 0; d < kTerms; ++d) terms.push_back(of.term(3 + d / 8, d, 1e-4 * (d % 7 + 0.3)));
        std::vector<float> sums(static_cast<size_t>(of.run.count));
        for (const NoiseTerm& term : terms) {
            const std::vector<float> c_z = direction(of.run, term);
            for (size_t i = 0; i < sums.size(); ++i) sums[i] += c_z[i];
        }
        Stored weights = weights_of(WeightType::f32, of.run.count), reversed = weights;
        const Stored before = weights;
        const auto take = [&](Stored& stored) {
            const NoiseStep step{1, 0.0f, terms.data(), kTerms};
            pass_over(of.run, {.type = WeightType::f32,
                               .weights = stored.at(0),
                               .updated = stored.at(0),
                               .steps = &step,
                               .step_count = 1});
        };
        take(weights);
        for (int64_t i = 0; i < of.run.count; ++i) ASSERT_EQ(weights[i], before[i] - sums[static_cast<size_t>(i)]) << i;
        std::reverse(terms.begin(), terms.end());
        take(reversed);
        EXPECT_FALSE(weights == reversed);
    }
}

TEST(Noise, OnePassGivesTheBitsOfSeveral) {
    for (const NoiseKind kind : kDirectionKinds) {
        const Directions of(kind);
        const Steps steps(of);
        for (const WeightType type : kStoredTypes) {
            Stored weights = weights_of(type, of.run.count), plus(WeightType::bf16, of.run.count), minus = plus;
            Stored other = weights, other_plus = plus, other_minus = plus;
            pass_over(of.run, steps.pass(weights, &plus, &minus));
            NoisePass pass = steps.pass(other);
            for (const NoiseStep& step : steps.steps) {
                pass.steps = &step;
                pass.step_count = 1;
                pass_over(of.run, pass);
            }
            pass = steps.pass(other, &other_plus, &other_minus);
            pass.step_count = 0;
            pass_over(of.run, pass);
            EXPECT_EQ(weights, other);
            EXPECT_EQ(plus, other_plus);
            EXPECT_EQ(minus, other_minus);
        }
    }
}

TEST(Noise, UpdatesMayGoElsewhere) {
    const Directions of(NoiseKind::gaussian);
    const Steps steps(of);
    Stored weights = weights_of(WeightType::bf16, of.run.count), other = weights, in_place = weights;
    const Stored before = weights;
    NoisePass pass = steps.pass(weights);
    pass.updated = other.at(0);
    pass_over(of.run, pass);
    pass_over(of.run, steps.pass(in_place));
    EXPECT_EQ(weights, before);
    EXPECT_EQ(other, in_place);
    EXPECT_FALSE(other == before);
}

// Everything that the kernels write for these weights, as one list of arrays.
std::vector<Stored> all_results(const Directions& of, WeightType type, const std::vector<int64_t>& cuts,
                                int threads = 1) {
    const Steps steps(of);
    const int64_t count = of.run.count;
    Stored weights = weights_of(type, count), plus(WeightType::bf16, count), minus(WeightType::f32, count);
    Stored tangent(WeightType::f32, count);
    const auto stream = make_stream(DeviceKind::cpu, threads);
    for (size_t c = 0; c + 1 < cuts.size(); ++c) {
        const NoiseRun run = of.part(cuts[c], cuts[c + 1]);
        NoisePass pass = steps.pass(weights, &plus);
        pass.weights = pass.updated = weights.at(cuts[c]);
        pass.plus = plus.at(cuts[c]);
        update_and_probe(run, pass, *stream);
        pass.step_count = 0;
        pass.plus = nullptr;
        pass.minus = minus.at(cuts[c]);
        pass.probe_type = WeightType::f32;
        update_and_probe(run, pass, *stream);
        const NoiseTerm z = of.term(4, 1, 1);
        write_direction(run, z, WeightType::f32, tangent.at(cuts[c]), *stream);
    }
    return {weights, plus, minus, tangent};
}

// Runs of many pieces: more than 2^16 elements where the kind allows it.
TEST(Noise, BitsDependNeitherOnCutsNorOnThreads) {
    for (const NoiseKind kind : kDirectionKinds) {
        const int64_t count = kind == NoiseKind::low_rank ? 20'011 : 150'001;
        const Directions of(kind, 4 * 1237, count);
        for (const WeightType type : kStoredTypes) {
            const std::vector<Stored> whole = all_results(of, type, {0, count});
            EXPECT_EQ(all_results(of, type, {0, count}, 3), whole);
            EXPECT_EQ(all_results(of, type, {0, 1, 2, 7, 128, 1000, 1001, 4196, 9000, 20'000, count}), whole);
            std::vector<int64_t> cuts = {0};
            for (Random random(9, RandomStream::test); cuts.back() < count;)
                cuts.push_back(std::min(count, cuts.back() + 1 + static_cast<int64_t>(random.below(5000))));
            EXPECT_EQ(all_results(of, type, cuts), whole);
        }
    }
}

TEST(Noise, EveryInstructionSetGivesTheSameBits) {
    for (const NoiseKind kind : kDirectionKinds) {
        const Directions of(kind);
        for (const WeightType type : kStoredTypes) {
            std::vector<std::vector<Stored>> results;
            on_every_isa([&] { results.push_back(all_results(of, type, {0, 20'011})); });
            EXPECT_THAT(results, Each(results[0])) << static_cast<int>(kind) << " " << static_cast<int>(type);
        }
    }
    std::vector<std::vector<float>> factors;
    const Directions of(NoiseKind::right_factor, 0, 1 << 20);
    on_every_isa([&] { factors.push_back(direction(of.run, of.term(1, 1, 1))); });
    for (const std::vector<float>& other : factors)
        EXPECT_EQ(std::memcmp(other.data(), factors[0].data(), other.size() * sizeof(float)), 0);
}

TEST(NoiseDeath, RefusesWhatHasNoMeaning) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Stored weights = weights_of(WeightType::f32, 100);
    Directions of(NoiseKind::low_rank, 0, 100, Directions::kRows * Directions::kCols - 99);
    const NoiseTerm term = of.term(1, 1, 1);
    EXPECT_DEATH(direction(of.run, term), "are not in a matrix");
    of.run.first = 0;
    of.run.rank = Directions::kRows + 1;
    EXPECT_DEATH(factor_run(of.run, NoiseKind::left_factor), "a matrix of 97 x 300 has no rank 98");
    of.run.rank = Directions::kRank;
    NoiseTerm bare = term;
    bare.u = nullptr;
    EXPECT_DEATH(direction(of.run, bare), "has one of its factors");
    NoisePass pass{.type = WeightType::f32, .weights = weights.at(0), .probe = &term, .probe_type = WeightType::f16};
    EXPECT_DEATH(pass_over(of.run, pass), "f32 or bf16");
    const NoiseStep steps[] = {{1, 0, &term, 1}, {2, 0, &term, 1}};
    pass = {.type = WeightType::f32, .weights = weights.at(0), .steps = steps, .step_count = 2};
    EXPECT_DEATH(pass_over(of.run, pass), "nowhere to go");
    const Directions far(NoiseKind::gaussian, (int64_t{1} << 48) - 99, 100);
    EXPECT_DEATH(direction(far.run, far.term(1, 1, 1)), "have no counters");
    EXPECT_DEATH(weight_type(DType::i32), "weights are not i32");
}

}  // namespace
}  // namespace windlass
