// Moments of AdamW read and written beside its updates: against the formats' definition, and right on the average.
#include <cmath>

#include "base/index.h"
#include "base/rng.h"
#include "method/methods.h"

namespace windlass {
namespace {

constexpr int64_t kBlock = 256;

// A chunk's state.
struct Kept {
    Recipe recipe;
    std::vector<std::vector<std::byte>> sections;
    std::vector<std::byte*> state;
    std::vector<float> first, second;

    Kept(StateFormat format, int64_t count) : first(at(count)), second(at(count)) {
        recipe = make_recipe("adamw", {.state_format = format});
        for (const StateSpec& spec : recipe.state) sections.emplace_back(at(state_bytes(spec, count)));
        for (std::vector<std::byte>& each : sections) state.push_back(each.data());
    }
    void write(std::span<const float> m, std::span<const float> v, int64_t step, int64_t element = 0) {
        const LoneParam param{.spec = {.name = "s", .shape = Shape{std::ssize(m)}}};
        const StepParams params{.seed = 5, .step = step};
        recipe.moments.write(
            {.param = param, .element = element, .count = std::ssize(m), .state = state, .step = &params}, m, v);
    }
    void read() { recipe.moments.read(state, first, second); }
};

struct MomentNumbers {
    std::vector<float> m, v;
};
// Over eight octaves, a block of zeros among them.
MomentNumbers numbers_of(int64_t count) {
    MomentNumbers made{std::vector<float>(at(count)), std::vector<float>(at(count))};
    Random random(1, RandomStream::test);
    for (int64_t i = 0; i < count; ++i) {
        const float size = 1e-4f * std::exp2(-8 * random.uniform());
        made.m[at(i)] = i / kBlock == 1 ? 0 : random.normal() * size;
        made.v[at(i)] = i / kBlock == 1 ? 0 : size * size;
    }
    return made;
}

// Of an element's neighbours in the format: how far apart they are, at most.
double spacing(StateFormat format, double size, double largest, int octaves) {
    if (format == StateFormat::fp32) return 0;
    if (format == StateFormat::bf16) return std::ldexp(size, -7);
    return std::ldexp(size, -3) + std::ldexp(largest, 2 - octaves);
}

TEST(AdamwMoments, AreWithinTheFormatsSpacingAndRightOnTheAverage) {
    constexpr int64_t kCount = 3 * kBlock + 17, kDraws = 400;
    const MomentNumbers numbers = numbers_of(kCount);
    float m_largest = 0, v_largest = 0;
    for (const float m : numbers.m) m_largest = std::max(m_largest, std::abs(m));
    for (const float v : numbers.v) v_largest = std::max(v_largest, v);
    for (const StateFormat format : kStateFormats) {
        SCOPED_TRACE(state_format_name(format));
        Kept kept(format, kCount);
        std::vector<double> m_sum(at(kCount)), v_sum(at(kCount));
        for (int64_t draw = 1; draw <= kDraws; ++draw) {
            kept.write(numbers.m, numbers.v, draw);
            kept.read();
            for (size_t i = 0; i < at(kCount); ++i) m_sum[i] += kept.first[i], v_sum[i] += kept.second[i];
        }
        double drift = 0, allowed = 0;
        for (size_t i = 0; i < at(kCount); ++i) {
            const double m = numbers.m[i], v = numbers.v[i];
            const double m_apart = spacing(format, std::abs(m), m_largest, 16),
                         v_apart = spacing(format, v, v_largest, 32);
            ASSERT_LE(std::abs(kept.first[i] - m), m_apart) << i;
            ASSERT_LE(std::abs(kept.second[i] - v), v_apart) << i;
            if (m == 0) {
                ASSERT_EQ(kept.first[i], 0) << i;
                ASSERT_EQ(kept.second[i], 0) << i;
            } else {
                ASSERT_GT(kept.second[i], 0) << i << ": a step beside it would be a leap";
            }
            // Five standard deviations of a mean of two neighbours.
            ASSERT_LE(std::abs(m_sum[i] / kDraws - m), 5 * m_apart / 2 / std::sqrt(double{kDraws})) << i;
            ASSERT_LE(std::abs(v_sum[i] / kDraws - v), 5 * v_apart / 2 / std::sqrt(double{kDraws})) << i;
            drift += m_sum[i] / kDraws - m, allowed += m_apart * m_apart / 4 / kDraws;
        }
        EXPECT_LE(std::abs(drift), 5 * std::sqrt(allowed));
    }
}

// What can be kept stays, so that a refresh that carries nothing over changes nothing.
TEST(AdamwMoments, KeepWhatTheyRead) {
    constexpr int64_t kCount = 2 * kBlock;
    const MomentNumbers numbers = numbers_of(kCount);
    for (const StateFormat format : kStateFormats) {
        SCOPED_TRACE(state_format_name(format));
        Kept kept(format, kCount);
        kept.write(numbers.m, numbers.v, 1);
        kept.read();
        const std::vector<float> m = kept.first, v = kept.second;
        kept.write(m, v, 2);
        kept.read();
        EXPECT_EQ(kept.first, m);
        EXPECT_EQ(kept.second, v);
    }
}

// Chunks of whole blocks are rounded as all of it is.
TEST(AdamwMoments, DoNotDependOnCuts) {
    constexpr int64_t kCount = 4 * kBlock, kCut = kBlock;
    const MomentNumbers numbers = numbers_of(kCount);
    for (const StateFormat format : kStateFormats) {
        Kept whole(format, kCount), head(format, kCut), tail(format, kCount - kCut);
        whole.write(numbers.m, numbers.v, 3, 2 * kBlock);
        head.write(std::span(numbers.m).first(kCut), std::span(numbers.v).first(kCut), 3, 2 * kBlock);
        tail.write(std::span(numbers.m).subspan(kCut), std::span(numbers.v).subspan(kCut), 3, 2 * kBlock + kCut);
        for (size_t s = 0; s < whole.sections.size(); ++s) {
            std::vector<std::byte> parts = head.sections[s];
            parts.insert(parts.end(), tail.sections[s].begin(), tail.sections[s].end());
            EXPECT_TRUE(parts == whole.sections[s]) << state_format_name(format) << ", " << s;
        }
    }
}

}  // namespace
}  // namespace windlass
