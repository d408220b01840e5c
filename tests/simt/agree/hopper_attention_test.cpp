// Attention of sm_90a, and of all other architectures: the formula, one derivative, and each close to the other.
// Threads and copies in another order give the same bits. Heads that have no kernel there take the others'.
#include <set>

#include "tests/agree/attention_rows.h"
#include "tests/sanitizer.h"
#include "tests/simt/emulated.h"

namespace windlass::agree {
namespace {

constexpr int kAmpere = 80, kHopperCard = 90;

class HopperAttention : public testing::TestWithParam<RowCase> {
  protected:
    ~HopperAttention() override { simt::emulate({}); }
    void SetUp() override {
        const bool is_large = GetParam().length > 130 || GetParam().head_size > 128;
        if (is_second_run() && is_large) GTEST_SKIP() << "smaller ones take the same code";
    }
    void expect_the_same_bits(uint64_t seeds) {
        const Results first = results(kHopperCard, 1);
        for (uint64_t seed = 2; seed <= seeds; ++seed)
            EXPECT_TRUE(results(kHopperCard, seed) == first) << "seed " << seed;
    }

    // All that the op computes.
    struct Results {
        ForwardResult forward;
        BackwardResult backward;
        std::vector<Value> tangents;
        std::set<std::string> kernels;
        bool operator==(const Results& other) const {
            return forward.out == other.forward.out && forward.saved == other.forward.saved &&
                   backward == other.backward && tangents == other.tangents;
        }
    };
    Results results(int capability, uint64_t seed, BackwardMode mode = {}) {
        Results all;
        simt::emulate(
            {.seed = seed, .capability = capability, .launching = [&](const char* name) { all.kernels.insert(name); }});
        all.forward = trial_.forward(1);
        all.backward = trial_.backward(all.forward, 1, mode);
        all.tangents = trial_.tangent(all.forward, 1);
        simt::emulate({.capability = capability});
        return all;
    }
    Trial trial_{setting_of(GetParam())};
};

// Of numbers whose errors are roundings to 2^-9 of what is summed up: a norm over all, and each by the largest.
void expect_close(const Matrix& got, const Matrix& want, const char* what) {
    double error = 0, size = 0, largest = 0, most = 0;
    for (size_t i = 0; i < want.numbers.size(); ++i) {
        const double off = std::abs(got.numbers[i] - want.numbers[i]);
        ASSERT_TRUE(std::isfinite(off)) << what << " " << i;
        error += off * off;
        size += want.numbers[i] * want.numbers[i];
        most = std::max(most, off);
        largest = std::max(largest, std::abs(want.numbers[i]));
    }
    EXPECT_LE(std::sqrt(error), 0x1p-7 * std::sqrt(size)) << what;
    EXPECT_LE(most, 0x1p-6 * largest) << what;
}

TEST_P(HopperAttention, IsTheFormulaAndHasOneDerivative) {
    expect_the_formula(trial_);
    expect_one_derivative(trial_);
}

TEST_P(HopperAttention, HasTheSameBitsInEveryOrder) {
    expect_the_same_bits(2);
}

class SlowHopperAttention : public HopperAttention {};

TEST_P(SlowHopperAttention, HasTheSameBitsInEveryOrder) {
    expect_the_same_bits(20);
}

// Gradients are added to what is there, and rounded once.
TEST_P(HopperAttention, HasKernelsOfItsOwnThatAgreeWithTheOthers) {
    const Results ampere = results(kAmpere, 1, {.add_to_grad_in = true}),
                  hopper = results(kHopperCard, 1, {.add_to_grad_in = true});
    const bool has_tangent = GetParam().head_size <= 128;
    EXPECT_EQ(hopper.kernels,
              (std::set<std::string>{"attention forward of sm_90a", "attention delta", "attention by keys of sm_90a",
                                     "attention by queries of sm_90a",
                                     has_tangent ? "attention tangent of sm_90a" : "attention tangent"}));
    for (const std::string& name : ampere.kernels) EXPECT_EQ(name.find("sm_90a"), std::string::npos) << name;
    expect_close(hopper.forward.out[0].matrix(), ampere.forward.out[0].matrix(), "out");
    expect_close(hopper.forward.saved[0].matrix(), ampere.forward.saved[0].matrix(), "log-sums");
    expect_close(hopper.backward.grad_in[0].matrix(), ampere.backward.grad_in[0].matrix(), "gradients");
    for (size_t d = 0; d < hopper.tangents.size(); ++d)
        expect_close(hopper.tangents[d].matrix(), ampere.tangents[d].matrix(), "tangents");
}

std::string row_name(const testing::TestParamInfo<RowCase>& info) {
    const RowCase& row = info.param;
    return fmt::format("{}_length_{}_window_{}_softcap_{}{}", row.head_size, row.length, row.window, row.softcap,
                       row.documents ? "_documents" : "");
}

// Lengths of one token, a tile less one, and one tile more; groups of heads; several rows.
const auto hopper_rows =
    testing::Values(RowCase{64, 2, 1, 1}, RowCase{64, 4, 2, 127, 0, 0, false, 2}, RowCase{64, 1, 1, 200, 50},
                    RowCase{64, 2, 2, 140, 0, 0, true, 2}, RowCase{80, 2, 1, 129}, RowCase{80, 1, 1, 150, 40, 0, true},
                    RowCase{96, 1, 1, 200}, RowCase{128, 1, 1, 260}, RowCase{128, 2, 2, 140, 70, 0, true},
                    RowCase{128, 1, 1, 150, 0, 2}, RowCase{128, 1, 1, 140, 70, 2, true}, RowCase{256, 2, 1, 130},
                    RowCase{256, 1, 1, 150, 60, 0, true}, RowCase{256, 1, 1, 140, 0, 2}, RowCase{48, 4, 2, 129},
                    RowCase{72, 1, 1, 150, 40, 0, true}, RowCase{112, 2, 1, 130}, RowCase{64, 2, 1, 130, 0, 2},
                    RowCase{192, 2, 1, 130});
INSTANTIATE_TEST_SUITE_P(Rows, HopperAttention, hopper_rows, row_name);
INSTANTIATE_TEST_SUITE_P(Rows, SlowHopperAttention, hopper_rows, row_name);

// Stages that are used again and again: some faults of a pipeline show only there.
class HopperLongRows : public HopperAttention {};
TEST_P(HopperLongRows, HaveTheSameBitsInEveryOrder) {
    expect_the_formula(trial_);
    expect_the_same_bits(2);
}
INSTANTIATE_TEST_SUITE_P(Rows, HopperLongRows, testing::Values(RowCase{64, 1, 1, 780}, RowCase{128, 1, 1, 400}),
                         row_name);

// The kernels of all other architectures, for each of their sizes, and for heads between them.
class OtherArchitectures : public HopperAttention {};
TEST_P(OtherArchitectures, AreTheFormulaAndHaveOneDerivative) {
    simt::emulate({.capability = kAmpere});
    expect_the_formula(trial_);
    expect_one_derivative(trial_);
}
INSTANTIATE_TEST_SUITE_P(Rows, OtherArchitectures,
                         testing::Values(RowCase{64, 2, 1, 200}, RowCase{64, 1, 1, 200, 100}, RowCase{80, 1, 1, 150},
                                         RowCase{96, 1, 1, 150, 70}, RowCase{128, 2, 1, 150}, RowCase{256, 1, 1, 130},
                                         RowCase{64, 1, 1, 90, 0, 2}, RowCase{128, 1, 1, 150, 70, 2},
                                         RowCase{256, 1, 1, 130, 0, 2}, RowCase{36, 2, 1, 90}, RowCase{48, 2, 1, 150},
                                         RowCase{112, 1, 1, 150, 70}, RowCase{192, 2, 1, 130}, RowCase{20, 1, 1, 90}),
                         row_name);

// Also where rows or heads begin between packs of 16 bytes, and for sizes that have no kernel there.
TEST(HopperDispatch, TheOtherKernelsTakeTheRest) {
    Setting with_gaps = setting_of({64, 2, 1, 70});
    with_gaps.gaps = true;
    for (const Setting& setting : {with_gaps, setting_of({36, 2, 1, 70}), setting_of({20, 1, 1, 70})}) {
        const Trial trial(setting);
        std::set<std::string> kernels;
        simt::emulate({.launching = [&](const char* name) { kernels.insert(name); }});
        trial.forward(1);
        EXPECT_EQ(kernels, std::set<std::string>{"attention forward"});
        simt::emulate({});
        expect_the_formula(trial);
    }
}

}  // namespace
}  // namespace windlass::agree
