// Attention over rows of several tiles, for every head size that has kernels of its own on some device. The first
// tokens of such a row are means of few values, and the last of many: each is measured by its own.
#include "tests/agree/attention_rows.h"

namespace windlass::agree {
namespace {

class AttentionRows : public testing::TestWithParam<RowCase> {
  protected:
    Trial trial_{setting_of(GetParam())};
};

TEST_P(AttentionRows, AreTheFormula) {
    expect_the_formula(trial_);
}

TEST_P(AttentionRows, HaveOneDerivative) {
    expect_one_derivative(trial_);
}

INSTANTIATE_TEST_SUITE_P(Sizes, AttentionRows,
                         testing::Values(RowCase{64, 2, 1, 200}, RowCase{64, 1, 1, 200, 100}, RowCase{80, 1, 1, 150},
                                         RowCase{96, 1, 1, 150, 70}, RowCase{128, 2, 1, 150}, RowCase{256, 1, 1, 130},
                                         RowCase{64, 1, 1, 90, 0, 2}, RowCase{128, 1, 1, 150, 70, 2},
                                         RowCase{256, 1, 1, 130, 0, 2}),
                         [](const auto& info) {
                             return fmt::format("{}_window_{}_softcap_{}", info.param.head_size, info.param.window,
                                                info.param.softcap);
                         });

}  // namespace
}  // namespace windlass::agree
