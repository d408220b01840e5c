// Directions, probes and updates along them have the CPU's bits: any type, any run, any steps.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "base/index.h"
#include "base/rng.h"
#include "perturb/noise.h"
#include "perturb/stored.h"
#include "perturb/weight_op.h"
#include "tests/agree/visible.h"
#include "tests/sanitizer.h"
#include "tests/simt/emulated.h"

namespace windlass {
namespace {

using agree::VisibleVector;

constexpr std::byte kUntouched{0xa5};
constexpr int64_t kGuard = 64, kParam = 8 * 1237 + 3;  // the parameter's first element in the model

// What a call is of, drawn from a seed.
struct Trial {
    explicit Trial(uint64_t seed, const Shape& shape) : shape(shape), random(seed, RandomStream::test) {
        static constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f8_e4m3, DType::nf4};
        stored = {kTypes[random.below(5)], 0};
        if (stored.dtype == DType::f8_e4m3) stored.scale_exponent = -3;
        if (flip()) compute = DType::bf16;
        noise.kind = static_cast<NoiseKind>(random.below(3));
        if (noise.kind == NoiseKind::low_rank)
            noise = {.kind = noise.kind, .rank = 1 + below(9), .window = below(3) * 2, .keeps_left = flip()};
        is_open = flip() || stored.dtype == DType::nf4;
        masks = random.below(4) == 0;
        has_probe = flip() || random.below(3) == 0;
        first = flip() ? 0 : below(shape.numel() - 1);
        if (stored.dtype == DType::nf4) first = first / 64 * 64;
        count = flip() ? shape.numel() - first : 1 + below(shape.numel() - first);
        const int64_t step_count = is_open ? below(2) : below(4);
        for (int64_t step = 1; step <= step_count; ++step) add_step(step);
        probe = term(9, 1, 1e-2);
    }
    bool flip() { return random.below(2) == 0; }
    int64_t below(int64_t limit) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(limit))); }
    NoiseRun run() const { return noise_run(noise, 77, {.name = "w", .shape = shape}, kParam, first, count); }
    NoiseTerm term(int64_t step, int direction, double c) const { return noise_term(noise, run(), step, direction, c); }

    void add_step(int64_t number) {
        std::vector<NoiseTerm>& terms = lists.emplace_back();
        NoiseStep step{.step = static_cast<uint32_t>(number), .decay = flip() ? 1e-3f : 0.0f};
        const bool is_ranked = run().kind == NoiseKind::low_rank;
        // Now and then more than the short list of a launch holds.
        const int64_t count = is_ranked || random.below(3) > 0 ? 1 + below(4) : 90;
        for (int64_t t = 0; t < count; ++t)
            terms.push_back(term(number + t / 2, static_cast<int>(t % 2), 1e-3 * static_cast<double>(1 + t)));
        if (random.below(3) == 0) {
            std::vector<NoiseMoment>& of_step = moments.emplace_back();
            of_step = {{.term_count = count - 1, .first = 0.3f, .second = 0.7f},
                       {.term_count = 1, .first = 0.6f, .second = 0.2f}};
            step.moments = of_step.data();
            step.moment_count = 2;
            step.epsilon = 1e-4f;
        } else if (is_ranked && !noise.keeps_left && flip()) {
            for (NoiseTerm& each : terms) each.direction = each.kept_step = 1;
            terms.back().direction = 2;
            step.adds_left = true;
        } else if (is_ranked && noise.keeps_left && flip()) {
            std::vector<float>& given = scales.emplace_back(at(run().rank));
            for (float& scale : given) scale = random.normal();
            terms[0].scales = given.data();
        }
        step.terms = terms.data();
        step.term_count = count;
        steps.push_back(step);
    }

    Shape shape;
    Random random;
    StoredType stored;
    DType compute = DType::f32;
    Noise noise;
    bool is_open = false, masks = false, has_probe = false;
    int64_t first = 0, count = 0;
    std::deque<std::vector<NoiseTerm>> lists;
    std::deque<std::vector<NoiseMoment>> moments;
    std::deque<std::vector<float>> scales;
    std::vector<NoiseStep> steps;
    NoiseTerm probe;
};

using Bytes = VisibleVector<std::byte>;

// What a call wrote, with what lies behind.
struct Written {
    Bytes weights, plain, plus, minus;
};

Written blank(const Trial& trial) {
    std::vector<float> numbers(at(trial.count));
    Random random(9, RandomStream::test);
    for (float& number : numbers) number = 0.02f * random.normal();
    const auto bytes = [&](DType type) { return Bytes(at(stored_bytes(type, trial.count) + kGuard), kUntouched); };
    Written made{bytes(trial.stored.dtype), bytes(trial.compute), bytes(trial.compute), bytes(trial.compute)};
    encode_stored(trial.stored, DType::bf16, numbers, std::span(made.weights).first(made.weights.size() - kGuard));
    return made;
}

template <typename Call>
void on(DeviceKind kind, Call call) {
    const std::unique_ptr<Stream> stream = make_device({kind})->make_stream(2);
    stream->launch([&](const Launch& launch) { call(launch.stream()); });
    stream->synchronize();
}

Written perturbed(DeviceKind kind, const Trial& trial) {
    Written made = blank(trial);
    on(kind, [&](Stream& stream) {
        kPerturbWeights(trial.run(),
                        {.type = weight_type(trial.stored.dtype),
                         .scale_exponent = trial.stored.scale_exponent,
                         .weights = made.weights.data(),
                         .updated = trial.is_open ? nullptr : made.weights.data(),
                         .steps = trial.steps.data(),
                         .step_count = std::ssize(trial.steps),
                         .probe = trial.has_probe ? &trial.probe : nullptr,
                         .probe_type = weight_type(trial.compute),
                         .plus = trial.has_probe ? made.plus.data() : nullptr,
                         .minus = trial.has_probe && trial.first % 2 == 0 ? made.minus.data() : nullptr,
                         .plain = made.plain.data(),
                         .masks = trial.masks,
                         .limit = 0.02f},
                        stream);
    });
    return made;
}

void expect_the_cpus_bits(const Trial& trial, const std::string& what) {
    const Written cpu = perturbed(DeviceKind::cpu, trial), cuda = perturbed(DeviceKind::cuda, trial);
    EXPECT_TRUE(cpu.weights == cuda.weights) << what << ": weights";
    EXPECT_TRUE(cpu.plain == cuda.plain) << what << ": plain";
    EXPECT_TRUE(cpu.plus == cuda.plus) << what << ": plus";
    EXPECT_TRUE(cpu.minus == cuda.minus) << what << ": minus";
}

void expect_the_cpus_bits(uint64_t seed, const Shape& shape) {
    const Trial trial(seed, shape);
    expect_the_cpus_bits(
        trial, fmt::format("seed {}: {}, {} of rank {}, {} steps{}{}{}, elements {} to {}", seed,
                           dtype_name(trial.stored.dtype), noise_kind_name(trial.noise.kind), trial.noise.rank,
                           trial.steps.size(), trial.is_open ? ", open" : "", trial.masks ? ", masked" : "",
                           trial.has_probe ? ", probed" : "", trial.first, trial.first + trial.count));
}

TEST(Perturb, HasTheCpusBits) {
    const Shape shapes[] = {{37, 193}, {5, 1003}, {130, 64}, {2001}, {9, 8}};
    for (uint64_t seed = 0; seed < (is_sanitized() ? 40 : 200); ++seed) expect_the_cpus_bits(seed, shapes[seed % 5]);
}

TEST(SlowPerturb, HasTheCpusBits) {
    const int64_t rows = simt::many() / 1024 + 7, trials = (int64_t{40} << 20) / simt::many();
    for (int64_t trial = 0; trial < trials; ++trial)
        expect_the_cpus_bits(1000 + static_cast<uint64_t>(trial), {rows, 1019});
}

TEST(Directions, HaveTheCpusBits) {
    for (const DType type : {DType::f32, DType::bf16}) {
        for (uint64_t seed = 0; seed < 12; ++seed) {
            const Trial trial(seed, {37, 193});
            const auto drawn = [&](DeviceKind kind) {
                Bytes out(at(stored_bytes(type, trial.count) + kGuard), kUntouched);
                on(kind, [&](Stream& stream) {
                    write_direction(trial.run(), trial.probe, weight_type(type), out.data(), stream);
                });
                return out;
            };
            EXPECT_TRUE(drawn(DeviceKind::cpu) == drawn(DeviceKind::cuda)) << "seed " << seed;
        }
    }
}

TEST(Factors, HaveTheCpusBits) {
    for (const bool keeps_left : {false, true}) {
        for (const int64_t rank : {1, 3, 8}) {
            const Noise noise{.kind = NoiseKind::low_rank, .rank = rank, .window = 4, .keeps_left = keeps_left};
            const NoiseRun run = noise_run(noise, 5, {.name = "w", .shape = {37, 193}}, kParam, 0, 37 * 193);
            const auto drawn = [&](DeviceKind kind) {
                VisibleVector<float> out(at(rank * (37 + 193) + kGuard), 7.0f);
                on(kind, [&](Stream& stream) {
                    write_factors(run, noise_term(noise, run, 7, 1, 0.5), out.data(), out.data() + rank * 37, stream);
                });
                return out;
            };
            EXPECT_TRUE(drawn(DeviceKind::cpu) == drawn(DeviceKind::cuda)) << rank << " " << keeps_left;
        }
    }
}

}  // namespace
}  // namespace windlass
