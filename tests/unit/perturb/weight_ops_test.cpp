// Every record of the list, on every case that it names: one result, whatever the instruction set, the team and the
// cut; nothing is written beyond it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/index.h"
#include "base/rng.h"
#include "perturb/weight_op.h"
#include "tests/unit/op/every_isa.h"

namespace windlass {
namespace {

constexpr size_t kGuard = 64;
constexpr std::byte kUntouched{0xa5};

struct Trial {
    const WeightOp* op;
    WeightCase of;
};

// Factors are of the whole matrix: they are not cut.
std::vector<Trial> trials_of(bool cut) {
    std::vector<Trial> trials;
    for (const WeightOp* op : all_weight_ops())
        for (const WeightCase& each : op->cases())
            if (!cut || op != &kWriteFactors) trials.push_back({op, each});
    return trials;
}
std::string name_of(const testing::TestParamInfo<Trial>& info) {
    return std::string(info.param.op->name) + "_" + info.param.of.name;
}

// What a call wrote, guards included.
struct Written {
    std::vector<std::byte> updated, plain, plus, minus;
    bool operator==(const Written&) const = default;
};

class WeightOps : public testing::TestWithParam<Trial> {
  protected:
    WeightOps() : op_(*GetParam().op), case_(GetParam().of), count_(case_.shape.numel()) {
        std::vector<float> numbers(at(count_));
        Random random(9, RandomStream::test);
        for (float& number : numbers) number = 0.02f * random.normal();
        weights_.resize(at(stored_bytes(case_.stored.dtype, count_)));
        encode_stored(case_.stored, DType::bf16, numbers, weights_);
    }
    bool is_factors() const { return &op_ == &kWriteFactors; }
    NoiseRun run(int64_t first, int64_t count) const {
        return noise_run(case_.noise, 77, {.name = "w", .shape = case_.shape}, 4 * 1237, first, count);
    }
    // Elements [first, end) of `written`.
    void call(int64_t first, int64_t end, int threads, Written& written) const {
        const NoiseRun part = run(first, end - first);
        std::vector<NoiseTerm> terms;
        std::vector<NoiseMoment> moments;
        std::vector<NoiseStep> steps;
        for (int s = 1; s <= case_.steps; ++s)
            for (int d = 0; d < 2; ++d) terms.push_back(noise_term(case_.noise, part, s, d, 1e-3 * (d + s)));
        for (int s = 0; s < case_.steps; ++s) {
            moments.push_back({.term_count = 2, .first = 0.3f, .second = 0.7f});
            steps.push_back(
                {.step = static_cast<uint32_t>(s + 1), .decay = 1e-3f, .terms = &terms[at(2 * s)], .term_count = 2});
            if (!case_.moments) continue;
            steps.back().moments = &moments[at(s)];
            steps.back().moment_count = 1;
            steps.back().epsilon = 1e-4f;
        }
        const NoiseTerm probe = noise_term(case_.noise, part, 9, 1, 1e-2);
        const auto of = [&](std::vector<std::byte>& bytes, DType type) {
            return bytes.data() + stored_bytes(type, is_factors() ? 0 : first);
        };
        const std::byte* const from = weights_.data() + stored_bytes(case_.stored.dtype, first);
        std::byte* const updated = of(written.updated, case_.stored.dtype);
        if (case_.steps > 0) std::memcpy(updated, from, at(stored_bytes(case_.stored.dtype, end - first)));
        const bool writes = &op_ == &kPerturbWeights;
        op_(part,
            {.type = weight_type(case_.stored.dtype),
             .scale_exponent = case_.stored.scale_exponent,
             .weights = case_.steps > 0 ? updated : from,
             .updated = case_.steps > 0 ? updated : nullptr,
             .steps = steps.data(),
             .step_count = case_.steps,
             .probe = case_.probes ? &probe : nullptr,
             .probe_type = weight_type(case_.compute),
             .plus = case_.probes ? of(written.plus, case_.compute) : nullptr,
             .minus = case_.probes && (writes || is_factors()) ? of(written.minus, case_.compute) : nullptr,
             .plain = case_.probes && !writes ? nullptr : of(written.plain, case_.compute),
             .masks = case_.masks,
             .limit = 0.02f},
            *make_stream(DeviceKind::cpu, threads));
    }
    Written blank() const {
        const auto bytes = [&](DType type) {
            return std::vector<std::byte>(at(stored_bytes(type, count_)) + kGuard, kUntouched);
        };
        return {bytes(case_.stored.dtype), bytes(case_.compute), bytes(case_.compute), bytes(case_.compute)};
    }
    Written whole(int threads) const {
        Written written = blank();
        call(0, count_, threads, written);
        return written;
    }

    const WeightOp& op_;
    const WeightCase case_;
    int64_t count_;
    std::vector<std::byte> weights_;
};

TEST_P(WeightOps, GiveOneResult) {
    const Written first = whole(1);
    EXPECT_NE(first, blank()) << "nothing was written";
    on_every_isa([&] {
        for (const int threads : {1, 3}) EXPECT_EQ(whole(threads), first) << threads << " threads";
    });
}

class CutWeightOps : public WeightOps {};

TEST_P(CutWeightOps, GiveThatResult) {
    const Written first = whole(1);
    on_every_isa([&] {
        for (const int64_t cut : {int64_t{64}, int64_t{4096}, count_ - 64}) {
            Written written = blank();
            call(cut, count_, 3, written);
            call(0, cut, 1, written);
            EXPECT_EQ(written, first) << cut;
        }
    });
}

TEST_P(WeightOps, WriteNothingElse) {
    const Written written = whole(3);
    for (const auto* bytes : {&written.updated, &written.plain, &written.plus, &written.minus})
        EXPECT_TRUE(std::ranges::all_of(std::span(*bytes).last(kGuard), [](std::byte b) { return b == kUntouched; }));
    if (is_factors()) {
        const NoiseRun all = run(0, count_);
        const auto rest = std::span(written.plus).subspan(at(4 * all.rank * all.rows));
        EXPECT_TRUE(std::ranges::all_of(rest, [](std::byte b) { return b == kUntouched; }));
    }
}

INSTANTIATE_TEST_SUITE_P(All, WeightOps, testing::ValuesIn(trials_of(false)), name_of);
INSTANTIATE_TEST_SUITE_P(All, CutWeightOps, testing::ValuesIn(trials_of(true)), name_of);

// A direction more is its numbers more, of its kind; what is only copied draws none.
TEST(WeightOpCosts, AreOfWhatIsDrawn) {
    const Noise gaussian, signs{.kind = NoiseKind::rademacher}, ranks{.kind = NoiseKind::low_rank, .rank = 2};
    const auto drawn = [](const Noise& noise, double count) {
        return kPerturbWeights.draws({.noise = noise, .drawn = count});
    };
    EXPECT_EQ(drawn(gaussian, 3), 3);
    EXPECT_DOUBLE_EQ(drawn(signs, 3), 3 * 0.4);
    EXPECT_DOUBLE_EQ(drawn(ranks, 3), 3 * 0.35);
    EXPECT_DOUBLE_EQ(kPerturbWeights.draws({.noise = ranks, .sums = 3}), 3 * 0.1);
    EXPECT_DOUBLE_EQ(kPerturbWeights.draws({.stored = DType::f8_e4m3, .drawn = 1, .rounds = 2}), 1 + 2 * 0.3);
    EXPECT_EQ(kCopyWeights.draws({.drawn = 3}), 0);
}

}  // namespace
}  // namespace windlass
