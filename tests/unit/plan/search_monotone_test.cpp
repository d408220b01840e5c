// More of anything does not make the answer of a search worse, on landscapes that have nothing smooth about them:
// hundreds of them take less than one model that is lowered.
#include <array>

#include "base/rng.h"
#include "plan/search.h"
#include "tests/sanitizer.h"

namespace windlass {
namespace {

constexpr std::array kTurned = {Knob::weights, Knob::state, Knob::update, Knob::keep, Knob::read_ahead};
constexpr int kValues = 5;
constexpr double kMargin = 1.0011;  // gains below a thousandth of a step are none

// Each value of each knob costs something, each pair of values something more, all by chance: what is best of one knob
// depends on all others.
class Landscape {
  public:
    explicit Landscape(uint64_t seed) : random_(seed, RandomStream::test) {
        for (std::vector<int>& values : space.values) values = {0};
        for (const Knob knob : kTurned) space.of(knob) = {0, 1, 2, 3, 4};
        space.of(Knob::update) = {0, 1, 2};
        for (auto& of_knob : alone_)
            for (Cost& cost : of_knob) cost = {dice(1), dice(1), dice(1)};
        for (auto& of_pair : pairs_)
            for (Cost& cost : of_pair) cost = {dice(1), dice(0.3), dice(0.3)};
    }

    Evaluation operator()(const Choice& choice) const {
        Cost sum;
        size_t pair = 0;
        for (size_t i = 0; i < kTurned.size(); ++i) {
            const int value = at(choice, kTurned[i]);
            sum += alone_[i][static_cast<size_t>(value)];
            for (size_t j = 0; j < i; ++j, ++pair)
                sum += pairs_[pair][static_cast<size_t>(value * kValues + at(choice, kTurned[j]))];
        }
        return {.seconds = sum.seconds,
                .memory_bytes = static_cast<int64_t>(1e6 * sum.memory),
                .device_bytes = static_cast<int64_t>(1e6 * sum.device)};
    }
    double dice(double most) { return most * static_cast<double>(random_.below(1 << 20)) / (1 << 20); }

    Space space;

  private:
    struct Cost {
        double seconds = 0, memory = 0, device = 0;
        void operator+=(const Cost& other) { seconds += other.seconds, memory += other.memory, device += other.device; }
    };
    Random random_;
    std::array<std::array<Cost, kValues>, kTurned.size()> alone_;
    std::array<std::array<Cost, kValues * kValues>, kTurned.size() * (kTurned.size() - 1) / 2> pairs_;
};

// Seconds of the best that is found; nothing where nothing fits.
std::optional<double> found(const Landscape& landscape, const Limits& limits) {
    Evaluator evaluate(landscape);
    const std::vector<Choice> choices = search(landscape.space, evaluate, limits);
    if (choices.empty()) return std::nullopt;
    return landscape(choices.front()).seconds;
}

TEST(SearchMonotone, MoreIsNotSlowerOnAnyLandscape) {
    const uint64_t landscapes = is_sanitized() ? 40 : 300;
    constexpr int kRaises = 8;
    int compared = 0, faster = 0, slower = 0;
    for (uint64_t seed = 1; seed <= landscapes; ++seed) {
        Landscape landscape(seed);
        Limits limits{.memory = static_cast<int64_t>(1e6 * (2 + landscape.dice(4))),
                      .device = static_cast<int64_t>(1e6 * (2 + landscape.dice(4)))};
        std::optional<double> before = found(landscape, limits);
        for (int raised = 0; raised < kRaises; ++raised) {
            int64_t& limit = raised % 2 == 0 ? limits.memory : limits.device;
            limit = static_cast<int64_t>(static_cast<double>(limit) * (1 + landscape.dice(0.3)));
            const std::optional<double> after = found(landscape, limits);
            if (before) {
                ASSERT_TRUE(after) << "nothing fits any more, landscape " << seed;
                ++compared;
                slower += *after > kMargin * *before ? 1 : 0;
                faster += *after < *before ? 1 : 0;
            }
            before = after;
        }
    }
    // Where no rung holds anything that fits, a search descends under the budget itself, and may have luck that a
    // larger budget, for which a rung has something, does not look for: about one raise in a thousand of these.
    EXPECT_LE(slower, 1 + compared / 500);
    EXPECT_GT(compared, 4 * static_cast<int>(landscapes)) << "budgets that fit something";
    EXPECT_GT(faster, compared / 10) << "budgets that bind";
}

}  // namespace
}  // namespace windlass
