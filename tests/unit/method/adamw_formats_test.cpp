// Moments in bf16 and in 8-bit blocks: the rounding against its definition, and the same bits however it is computed.
#include <bit>
#include <cmath>
#include <cstring>

#include "base/math.h"
#include "base/rng.h"
#include "device/cpu/isa.h"
#include "method/methods.h"

namespace windlass {
namespace {

constexpr int64_t kFormatBlock = 256;

// What a moment may be: y as it is stored, in units of the block's scale.
double code_value(int code, int octaves) {
    return std::ldexp(std::ldexp(1 + code % 8 / 8.0, code / 8) - 1, -octaves);
}

// One parameter with its state, updated by the recipe's own kernel.
struct Trained {
    Recipe recipe;
    MethodOptions options;
    std::vector<uint16_t> hi;
    std::vector<int16_t> lo;
    std::vector<float> gradient;
    std::vector<std::vector<std::byte>> state;
    int64_t start = 0;  // the parameter's first element in the model

    Trained(StateFormat format, int64_t count, double beta1 = 0.9, double beta2 = 0.95)
        : options{.beta1 = beta1, .beta2 = beta2, .weight_decay = 0.1, .state_format = format},
          hi(static_cast<size_t>(count)),
          lo(hi.size()),
          gradient(hi.size()) {
        recipe = make_recipe("adamw", options);
        for (const StateSpec& spec : recipe.state) state.emplace_back(static_cast<size_t>(state_bytes(spec, count)));
    }
    int64_t count() const { return std::ssize(hi); }
    template <typename T>
    T* at(size_t section) {
        return reinterpret_cast<T*>(state[section].data());
    }
    float master(size_t i) const { return std::bit_cast<float>(join_master({hi[i], lo[i]})); }
    // A moment as it is stored.
    double moment(bool second, int64_t i) {
        if (options.state_format == StateFormat::bf16)
            return std::bit_cast<float>(static_cast<uint32_t>(at<uint16_t>(second ? 1 : 0)[i]) << 16);
        const uint8_t code = at<uint8_t>(second ? 2 : 0)[i];
        const double scale = at<float>(second ? 3 : 1)[i / kFormatBlock];
        if (second) return code_value(code, 32) * scale;
        return code_value(code & 127, 16) * scale * (code >= 128 ? -1 : 1);
    }
    StepParams prepared(int64_t step, double rate = 1e-2) const {
        StepParams params{.seed = 11, .step = step, .learning_rate = rate, .clip_scale = 0.5};
        recipe.prepare(options, params);
        return params;
    }
    void update(const StepParams& step, int threads = 1, int64_t first = 0, int64_t length = INT64_MAX) {
        length = std::min(length, count() - first);
        const LoneParam param{.spec = {.name = "w", .shape = Shape{count()}}};
        std::vector<std::byte*> parts;
        for (size_t s = 0; s < state.size(); ++s)
            parts.push_back(state[s].data() + state_bytes(recipe.state[s], first));
        const auto stream = make_stream(DeviceKind::cpu, threads);
        recipe.update()->cells[0]({.param = param,
                                   .first = first,
                                   .element = start + first,
                                   .count = length,
                                   .hi = hi.data() + first,
                                   .lo = lo.data() + first,
                                   .state = parts,
                                   .gradient = gradient.data() + first,
                                   .step = &step},
                                  *stream);
    }
    std::string bytes() const {
        std::string all;
        const auto append = [&](const auto& list) {
            all.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof list[0]);
        };
        append(hi), append(lo);
        for (const auto& part : state) append(part);
        return all;
    }
};

// Gradients over twelve powers of ten, with zeros, after a few steps of their own.
Trained random_run(StateFormat format, int64_t count) {
    Trained run(format, count);
    Random random(5, RandomStream::test);
    for (size_t i = 0; i < run.hi.size(); ++i) {
        const Split halves = split_master(std::bit_cast<uint32_t>(0.1f * random.normal()));
        run.hi[i] = halves.hi;
        run.lo[i] = halves.lo;
        const float size = std::pow(10.0f, static_cast<float>(random.below(13)) - 9.0f);
        run.gradient[i] = random.below(16) == 0 ? 0.0f : size * random.normal();
    }
    return run;
}

// The bits that an element's moment is rounded by, as a fraction: sixteen of them in bf16, twenty in int8.
double random_fraction(StateFormat format, int64_t element, int64_t step, bool second) {
    const int64_t i = element % kFormatBlock, place = i % 128;
    const auto counter = static_cast<uint64_t>((element - i) / 4 + place % 64 / 4 * 2 + place % 2);
    const auto words =
        philox(11, {.block = counter, .stream = RandomStream::rounding, .step = static_cast<uint32_t>(step)});
    const uint32_t word = std::rotl(words[static_cast<size_t>(place / 64 * 2 + place / 2 % 2)], i < 128 ? 0 : 8);
    const int bits = format == StateFormat::bf16 ? 16 : 20;
    return std::ldexp(second ? word >> (32 - bits) : word & ((1u << bits) - 1), -bits);
}

class Formats : public testing::TestWithParam<StateFormat> {};
INSTANTIATE_TEST_SUITE_P(Rounded, Formats, testing::Values(StateFormat::bf16, StateFormat::int8),
                         [](const auto& info) { return std::string(state_format_name(info.param)); });

TEST_P(Formats, EveryInstructionSetGivesTheSameBits) {
    const Isa before = cpu_isa();
    std::string reference;
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
        if (isa > detected_isa()) continue;
        set_cpu_isa(isa);
        Trained run = random_run(GetParam(), 70'003);
        run.gradient[1] = 3.4028235e38f, run.gradient[2] = 1e-42f, run.gradient[300] = -0.0f;
        for (const int64_t step : {1, 2, 3}) run.update(run.prepared(step));
        if (isa == Isa::baseline) reference = run.bytes();
        EXPECT_TRUE(run.bytes() == reference) << isa_name(isa);
    }
    set_cpu_isa(before);
}

// Cut at any block, by any number of threads.
TEST_P(Formats, CutsDoNotShow) {
    constexpr int64_t kCount = 150'001;
    Trained reference = random_run(GetParam(), kCount);
    reference.update(reference.prepared(3));
    for (const int threads : {2, 3}) {
        Trained run = random_run(GetParam(), kCount);
        run.update(run.prepared(3), threads);
        EXPECT_TRUE(run.bytes() == reference.bytes()) << threads;
    }
    Trained cut = random_run(GetParam(), kCount);
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 256}, {256, 99'840}, {100'096, INT64_MAX}})
        cut.update(cut.prepared(3), 1, first, count);
    EXPECT_TRUE(cut.bytes() == reference.bytes());
}

TEST_P(Formats, NoiseIsCountedByThePlaceInTheModel) {
    Trained here = random_run(GetParam(), 1024), there = random_run(GetParam(), 1024),
            later = random_run(GetParam(), 1024);
    there.start = kFormatBlock;
    here.update(here.prepared(1));
    there.update(there.prepared(1));
    StepParams step = later.prepared(1);
    step.step = 2;
    later.update(step);
    EXPECT_NE(here.state, there.state);
    EXPECT_NE(here.state, later.state);
    EXPECT_EQ(here.hi, there.hi);  // the step itself is taken before the moments are rounded
}

// Of the two numbers that may be stored around a moment, the one that the element's random bits choose: the upper one
// with the probability that makes the average right.
TEST_P(Formats, RoundsToTheNeighbourThatItsBitsChoose) {
    constexpr int64_t kStart = (int64_t{1} << 34) + 3 * kFormatBlock;  // counters need more than 32 bits
    Trained run = random_run(GetParam(), 5000);
    run.start = kStart;
    run.update(run.prepared(7));
    int64_t rounded = 0;
    for (int64_t i = 0; i < run.count(); ++i) {
        const double g = 0.5 * run.gradient[static_cast<size_t>(i)];
        for (const bool second : {false, true}) {
            const double exact = second ? static_cast<float>(1 - 0.95) * g * g : static_cast<float>(1 - 0.9) * g;
            const double stored = run.moment(second, i), size = std::abs(exact);
            double below = 0, above = 0;
            if (GetParam() == StateFormat::bf16) {
                const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(size));
                below = std::bit_cast<float>(bits & 0xffff0000u);
                above = std::bit_cast<float>((bits & 0xffff0000u) + 0x10000u);
            } else {
                const int octaves = second ? 32 : 16;
                const double scale = run.at<float>(second ? 3 : 1)[i / kFormatBlock];
                int code = 0;
                while (code + 2 < octaves * 8 && code_value(code + 1, octaves) * scale <= size) ++code;
                below = code_value(code, octaves) * scale;
                above = code_value(code + 1, octaves) * scale;
            }
            if (size == 0 || above == below) {
                EXPECT_EQ(stored, 0) << i;
                continue;
            }
            const double up = (size - below) / (above - below);
            const double threshold = 1 - random_fraction(GetParam(), kStart + i, 7, second);
            // Near the threshold, the roundings of f32 decide: 2^-24 of a number that is at most 32 times the gap in
            // 8 bits and 256 times in bf16.
            if (std::abs(up - threshold) < 0x1p-14) continue;
            if (up <= 0 && stored == below) continue;
            const bool kept_above_zero = second && below == 0;  // never to zero
            const double want = up > threshold || kept_above_zero ? above : below;
            ASSERT_FLOAT_EQ(static_cast<float>(std::abs(stored)), static_cast<float>(want))
                << i << (second ? " v " : " m ") << exact << " between " << below << " and " << above;
            EXPECT_TRUE(stored == 0 || std::signbit(stored) == (!second && std::signbit(exact))) << i;
            ++rounded;
        }
    }
    EXPECT_GT(rounded, 9000);
}

// With beta = 0 a moment is the gradient (or its square), rounded anew at every step. The mean of n roundings, each at
// most a gap wide, has a standard deviation of at most gap / (2 sqrt(n)); six of them pass.
TEST_P(Formats, RoundingIsUnbiased) {
    constexpr int64_t kCount = 512, kSteps = 4096;
    Trained run(GetParam(), kCount, 0.0, 0.0);
    Random random(9, RandomStream::test);
    for (float& g : run.gradient) g = random.normal();
    std::vector<double> first(kCount), second(kCount);
    for (int64_t step = 1; step <= kSteps; ++step) {
        run.update(run.prepared(step, 0.0));
        for (int64_t i = 0; i < kCount; ++i) {
            first[static_cast<size_t>(i)] += run.moment(false, i) / kSteps;
            second[static_cast<size_t>(i)] += run.moment(true, i) / kSteps;
        }
    }
    double first_sum = 0, second_sum = 0, first_gaps = 0, second_gaps = 0;
    for (size_t i = 0; i < kCount; ++i) {
        const double m = 0.5 * run.gradient[i], v = m * m;
        // bf16: 2^-7 of the number; 8 bits: 1/8, and 2^-octaves / 8 of the scale, which is at most four times the
        // largest number: here below 4.
        const double gap = GetParam() == StateFormat::bf16 ? 0x1p-7 : 0.125;
        const double m_gap = gap * std::abs(m) + 0x1p-17, v_gap = gap * v + 0x1p-33;
        EXPECT_NEAR(first[i], m, 6 * m_gap / (2 * std::sqrt(kSteps))) << i;
        EXPECT_NEAR(second[i], v, 6 * v_gap / (2 * std::sqrt(kSteps))) << i;
        first_sum += first[i] - m, first_gaps += m_gap * m_gap;
        second_sum += second[i] - v, second_gaps += v_gap * v_gap;
    }
    EXPECT_NEAR(first_sum, 0, 6 * std::sqrt(first_gaps / (4 * kSteps)));
    EXPECT_NEAR(second_sum, 0, 6 * std::sqrt(second_gaps / (4 * kSteps)));
}

// What can be stored is stored as it is, so numbers that do not change do not wander.
TEST(Blocks, KeepTheNumbersThatTheyHave) {
    Trained run(StateFormat::int8, kFormatBlock);
    for (int64_t i = 0; i < kFormatBlock; ++i) run.at<uint8_t>(0)[i] = run.at<uint8_t>(2)[i] = static_cast<uint8_t>(i);
    run.at<uint8_t>(0)[128] = 0;  // minus zero becomes plus zero
    *run.at<float>(1) = 0x1p-7f;
    *run.at<float>(3) = 0x1p-19f;
    const auto before = run.state;
    StepParams step = run.prepared(1, 0.0);
    step.method = GradientStep{.beta1 = 1, .beta2 = 1, .epsilon = 1e-8};
    for (step.step = 1; step.step <= 50; ++step.step) run.update(step);
    EXPECT_EQ(run.state, before);
}

// The scale is the least that the largest magnitude needs, when gradients jump up or down by any power of ten; a
// rounded moment is within an eighth of itself, which may be all that the scale is off.
TEST(Blocks, ScalesFollowTheLargestMoments) {
    Trained run(StateFormat::int8, kFormatBlock);
    double m = 0, v = 0;
    int64_t step = 0;
    for (const int power : {0, 5, -9, -3, 12, -14, -15, 2}) {
        for (int64_t i = 0; i < kFormatBlock; ++i)
            run.gradient[static_cast<size_t>(i)] = static_cast<float>(std::pow(10.0, power) * (i == 77 ? 1 : 1e-3));
        run.update(run.prepared(++step, 0.0));
        m = 0.9 * m + 0.05 * std::pow(10.0, power);
        v = 0.95 * v + 0.05 * std::pow(0.5 * std::pow(10.0, power), 2);
        const double m_scale = *run.at<float>(1), v_scale = *run.at<float>(3);
        EXPECT_NEAR(run.moment(false, 77), m, m / 8) << power;
        EXPECT_NEAR(run.moment(true, 77), v, v / 8) << power;
        EXPECT_GE(m_scale, m * 16 / 15 * 7 / 8) << power;
        EXPECT_LE(m_scale, m * 32 / 15 * 9 / 8) << power;
        EXPECT_GE(v_scale, v * 16 / 15 * 7 / 8) << power;
        EXPECT_LE(v_scale, v * 32 / 15 * 9 / 8) << power;
        m = run.moment(false, 77), v = run.moment(true, 77);
    }
}

// Squares of gradients may be numbers that f32 hardly has: scales end where floors would, moments stay.
TEST(Blocks, KeepTheSmallestMoments) {
    Trained run(StateFormat::int8, kFormatBlock);
    for (float& g : run.gradient) g = 1e-21f;
    run.update(run.prepared(1, 1e-3));
    EXPECT_EQ(*run.at<float>(3), 0x1p-94f);
    for (int64_t i = 0; i < kFormatBlock; ++i) {
        EXPECT_NEAR(run.moment(false, i), 0.05e-21, 0.05e-21 / 8) << i;
        EXPECT_GT(run.moment(true, i), 0) << i;
    }
}

// An element whose gradients are far below its neighbours' has a second moment still: no step longer than Adam's.
TEST(Blocks, NeverDivideByASecondMomentThatVanished) {
    Trained run(StateFormat::int8, kFormatBlock, 0.9, 0.999);
    for (int64_t i = 0; i < kFormatBlock; ++i) run.gradient[static_cast<size_t>(i)] = i == 0 ? 1e3f : 1e-5f;
    for (int64_t step = 1; step <= 200; ++step) {
        const std::vector<uint16_t> before = run.hi;
        run.update(run.prepared(step, 1e-3));
        for (int64_t i = 1; i < kFormatBlock; ++i) ASSERT_GT(run.at<uint8_t>(2)[i], 0);
    }
    for (size_t i = 1; i < kFormatBlock; ++i) EXPECT_LT(std::abs(run.master(i)), 200 * 1e-3 * 2) << i;
}

}  // namespace
}  // namespace windlass
