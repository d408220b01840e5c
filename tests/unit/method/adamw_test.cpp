// AdamW's update against its formula in double precision, and against itself on every instruction set.
#include <bit>
#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "device/cpu/isa.h"
#include "method/methods.h"

namespace windlass {
namespace {

struct Numbers {
    std::vector<uint16_t> hi;
    std::vector<int16_t> lo;
    std::vector<float> m, v, gradient;

    explicit Numbers(size_t count) : hi(count), lo(count), m(count), v(count), gradient(count) {}
    float master(size_t i) const { return std::bit_cast<float>(join_master({hi[i], lo[i]})); }
    void set_master(size_t i, float value) {
        const Split halves = split_master(std::bit_cast<uint32_t>(value));
        hi[i] = halves.hi;
        lo[i] = halves.lo;
    }
    // Bits, so that zeros have signs and NaNs are equal.
    std::string bytes() const {
        std::string all;
        const auto append = [&](const auto& list) {
            all.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof list[0]);
        };
        append(hi), append(lo), append(m), append(v);
        return all;
    }
};

Numbers random_numbers(size_t count, uint64_t seed) {
    Numbers n(count);
    Random random(seed, RandomStream::test);
    for (size_t i = 0; i < count; ++i) {
        n.set_master(i, 0.1f * random.normal());
        n.m[i] = 0.01f * random.normal();
        n.v[i] = std::abs(1e-4f * random.normal());
        n.gradient[i] = 0.1f * random.normal();
    }
    return n;
}

constexpr float kAwkward[] = {0.0f,   -0.0f,   1e-45f, -1e-45f,       1e-39f,        1.17549435e-38f,
                              3e-20f, -3e-20f, 1.0f,   -1.0f,         1.00390625f,   65504.0f,
                              1e18f,  -1e18f,  1e30f,  3.4028235e38f, -3.4028235e38f};

// Every master with every gradient, on fresh moments and on tiny and large ones.
Numbers awkward_numbers() {
    Numbers n(std::size(kAwkward) * std::size(kAwkward) * 3);
    size_t i = 0;
    for (const float master : kAwkward) {
        for (const float gradient : kAwkward) {
            for (const float moment : {0.0f, 1e-42f, 1e10f}) {
                n.set_master(i, master);
                n.gradient[i] = gradient;
                n.m[i] = moment;
                n.v[i] = std::abs(moment);
                ++i;
            }
        }
    }
    return n;
}

constexpr MethodOptions kOptions{.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};

StepParams prepared(int64_t step, double learning_rate, double clip_scale) {
    StepParams params{.step = step, .learning_rate = learning_rate, .clip_scale = clip_scale};
    make_recipe("adamw", kOptions).prepare(kOptions, params);
    return params;
}

// Runs the kernel over elements [first, first + count).
void update(Numbers& n, const StepParams& step, bool decay, int threads = 1, size_t first = 0,
            size_t count = SIZE_MAX) {
    count = std::min(count, n.hi.size() - first);
    const LoneParam param{.spec = {.name = "w", .shape = Shape{std::ssize(n.hi)}}, .training = {.decays = decay}};
    const std::vector<std::byte*> state = {reinterpret_cast<std::byte*>(n.m.data() + first),
                                           reinterpret_cast<std::byte*>(n.v.data() + first)};
    const ParamCall call{.param = param,
                         .first = static_cast<int64_t>(first),
                         .count = static_cast<int64_t>(count),
                         .hi = n.hi.data() + first,
                         .lo = n.lo.data() + first,
                         .state = state,
                         .gradient = n.gradient.data() + first,
                         .step = &step};
    const auto stream = make_stream(DeviceKind::cpu, threads);
    make_recipe("adamw", kOptions).update()->cells[static_cast<size_t>(DeviceKind::cpu)](call, *stream);
}

TEST(Adamw, StepsHaveItsSettings) {
    const GradientStep step = prepared(10, 1e-3, 1.0).gradient();
    EXPECT_EQ(step.beta1, 0.9);
    EXPECT_EQ(step.beta2, 0.95);
    EXPECT_EQ(step.epsilon, 1e-8);
    EXPECT_EQ(step.weight_decay, 0.1);
}

// One rounding of f32 is 2^-24 of the value; each result comes from fewer than eight.
TEST(Adamw, FollowsItsFormula) {
    constexpr double kTolerance = 8 * 0x1p-24;
    for (const bool decay : {false, true}) {
        Numbers n = random_numbers(10'007, 1);
        for (const int64_t t : {1, 2, 1000}) {
            const double rate = 3e-3, clip = t == 2 ? 0.37 : 1.0;
            const Numbers before = n;
            update(n, prepared(t, rate, clip), decay);
            for (size_t i = 0; i < n.hi.size(); ++i) {
                const double g = before.gradient[i] * clip;
                const double m = 0.9 * before.m[i] + 0.1 * g, v = 0.95 * before.v[i] + 0.05 * g * g;
                const double step = rate / (1 - std::pow(0.9, t)) * m / (std::sqrt(v / (1 - std::pow(0.95, t))) + 1e-8);
                const double p = before.master(i) * (1 - (decay ? rate * 0.1 : 0.0)) - step;
                const double m_size = std::abs(0.9 * before.m[i]) + std::abs(0.1 * g);
                ASSERT_NEAR(n.m[i], m, kTolerance * m_size) << i;
                ASSERT_NEAR(n.v[i], v, kTolerance * v) << i;
                const double step_error = std::abs(step) * (m_size / std::max(std::abs(m), 1e-30));
                ASSERT_NEAR(n.master(i), p, kTolerance * (std::abs(before.master(i)) + step_error)) << i;
            }
        }
    }
}

TEST(Adamw, EveryInstructionSetGivesTheSameBits) {
    const Isa before = cpu_isa();
    for (const auto& make : {+[] { return random_numbers(4099, 2); }, +[] { return awkward_numbers(); }}) {
        std::string reference;
        for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
            if (isa > detected_isa()) continue;
            set_cpu_isa(isa);
            Numbers n = make();
            for (const int64_t step : {1, 2, 3}) update(n, prepared(step, 1e-2, 0.5), true);
            if (isa == Isa::baseline) reference = n.bytes();
            EXPECT_TRUE(n.bytes() == reference) << isa_name(isa);
        }
    }
    set_cpu_isa(before);
}

// Cut anywhere, by any number of threads.
TEST(Adamw, CutsDoNotShow) {
    constexpr size_t kCount = 150'001;  // more than two pieces of a worker
    const StepParams step = prepared(3, 1e-2, 1.0);
    Numbers reference = random_numbers(kCount, 3);
    update(reference, step, true);
    for (const int threads : {2, 3}) {
        Numbers n = random_numbers(kCount, 3);
        update(n, step, true, threads);
        EXPECT_TRUE(n.bytes() == reference.bytes()) << threads;
    }
    Numbers cut = random_numbers(kCount, 3);
    for (const auto& [first, count] : {std::pair<size_t, size_t>{0, 1}, {1, 70'000}, {70'001, 79'999}, {150'000, 1}})
        update(cut, step, true, 1, first, count);
    EXPECT_TRUE(cut.bytes() == reference.bytes());
}

// Denormal gradients are numbers: flushed to zero they would leave m as it is.
TEST(Adamw, DenormalsCount) {
    Numbers n(1);
    n.set_master(0, 1.0f);
    n.gradient[0] = 1e-40f;
    update(n, prepared(1, 1e-3, 1.0), false);
    EXPECT_GT(n.m[0], 0.0f);
    EXPECT_LT(n.m[0], 1e-40f);
}

// Steps too small for bf16 add up in the low halves.
TEST(Adamw, SmallStepsAddUpInTheLowHalves) {
    Numbers n(1);
    n.set_master(0, 1.0f);
    n.gradient[0] = 1.0f;
    const uint16_t start = n.hi[0];
    for (int64_t step = 1; step <= 100; ++step) {
        update(n, prepared(step, 1e-4, 1.0), false);
        if (step == 10) {
            EXPECT_EQ(n.hi[0], start);
        }
    }
    EXPECT_NEAR(n.master(0), 1.0 - 100 * 1e-4, 1e-5);
    EXPECT_LT(n.hi[0], start);
}

// Decay belongs to matrices and tables: without a gradient a norm or a bias stays as it is.
TEST(Adamw, SparesNormsAndBiases) {
    Numbers spared(1), decayed(1);
    spared.set_master(0, 0.7f);
    decayed.set_master(0, 0.7f);
    update(spared, prepared(1, 1e-2, 1.0), false);
    update(decayed, prepared(1, 1e-2, 1.0), true);
    EXPECT_EQ(spared.master(0), 0.7f);
    EXPECT_EQ(decayed.master(0), 0.7f * static_cast<float>(1 - 1e-3));
}

}  // namespace
}  // namespace windlass
