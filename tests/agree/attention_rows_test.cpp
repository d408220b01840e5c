// Attention over rows of several tiles, for every head size that has kernels of its own on some device. The first
// tokens of such a row are means of few values, and the last of many: each is measured by its own.
#include <gtest/gtest.h>

#include <cmath>

#include "op/ops.h"
#include "tests/agree/trial.h"

namespace windlass::agree {
namespace {

struct RowCase {
    int64_t head_size, heads, key_heads, length;
    int64_t window = 0;
    double softcap = 0;
};
void PrintTo(const RowCase& row, std::ostream* out) {
    *out << row.head_size << ", window " << row.window << ", softcap " << row.softcap;
}

Setting setting_of(const RowCase& row) {
    Setting setting{.op = &kAttention, .compute = DType::bf16};
    setting.device = usable_cuda() == nullptr ? DeviceKind::cpu : DeviceKind::cuda;
    setting.op_case = {.name = "rows", .rows = 1, .sequence_length = row.length, .weight_scale = 1};
    setting.op_case.spec.attrs = AttentionAttrs{.heads = row.heads,
                                                .key_heads = row.key_heads,
                                                .head_size = row.head_size,
                                                .scale = 1 / std::sqrt(static_cast<double>(row.head_size)),
                                                .window = row.window,
                                                .softcap = row.softcap};
    setting.op_case.spec.in = {{(row.heads + 2 * row.key_heads) * row.head_size}};
    return setting;
}

class AttentionRows : public testing::TestWithParam<RowCase> {
  protected:
    Trial trial_{setting_of(GetParam())};
};

// Weights and results are rounded to 2^-9 of themselves, weights independently of each other.
TEST_P(AttentionRows, AreTheFormula) {
    const Matrix want = reference("attention", trial_.problem()), got = trial_.forward(1).out[0].matrix();
    for (int64_t t = 0; t < want.rows; ++t) {
        double squares = 0;
        for (int64_t i = 0; i < want.cols; ++i) squares += want.at(t, i) * want.at(t, i);
        const double typical = std::sqrt(squares / static_cast<double>(want.cols));
        for (int64_t i = 0; i < want.cols; ++i)
            ASSERT_NEAR(got.at(t, i), want.at(t, i), 0x1p-8 * (std::abs(want.at(t, i)) + 2 * typical))
                << "token " << t << ", number " << i;
    }
}

// <dO, J u> = <J^T dO, u>, up to 8 standard deviations of roundings that are independent of each other.
TEST_P(AttentionRows, HaveOneDerivative) {
    const ForwardResult kept = trial_.forward(1);
    const Matrix pulled = trial_.backward(kept, 1).grad_in[0].matrix(), v = trial_.grad_out();
    const std::vector<Value> tangents = trial_.tangent(kept, 1);
    const auto inner = [](const Matrix& a, const Matrix& b) {
        double sum = 0;
        for (size_t i = 0; i < a.numbers.size(); ++i) sum += a.numbers[i] * b.numbers[i];
        return sum;
    };
    for (int d = 0; d < Trial::kDirections; ++d) {
        const Matrix u = trial_.tangents_in(d)[0], pushed = tangents[static_cast<size_t>(d)].matrix();
        const double size = std::sqrt(inner(pushed, pushed)) + std::sqrt(inner(pulled, pulled));
        EXPECT_NEAR(inner(v, pushed), inner(pulled, u), 8 * 0x1p-8 * size) << "direction " << d;
    }
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
