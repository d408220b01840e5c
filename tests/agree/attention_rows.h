// attention_rows.h: attention over rows of several tiles, and what is expected of it on any device.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "op/ops.h"
#include "tests/agree/trial.h"

namespace windlass::agree {

struct RowCase {
    int64_t head_size, heads, key_heads, length;
    int64_t window = 0;
    double softcap = 0;
    bool documents = false;
    int64_t rows = 1;
};
inline void PrintTo(const RowCase& row, std::ostream* out) {
    *out << row.head_size << ", window " << row.window << ", softcap " << row.softcap;
}

inline Setting setting_of(const RowCase& row) {
    Setting setting{.op = &kAttention, .compute = DType::bf16};
    setting.device = usable_cuda() == nullptr ? DeviceKind::cpu : DeviceKind::cuda;
    setting.op_case = {
        .name = "rows", .rows = row.rows, .sequence_length = row.length, .documents = row.documents, .weight_scale = 1};
    setting.op_case.spec.attrs = AttentionAttrs{.heads = row.heads,
                                                .key_heads = row.key_heads,
                                                .head_size = row.head_size,
                                                .scale = 1 / std::sqrt(static_cast<double>(row.head_size)),
                                                .window = row.window,
                                                .softcap = row.softcap};
    setting.op_case.spec.in = {{(row.heads + 2 * row.key_heads) * row.head_size}};
    return setting;
}

// Weights and results are rounded to 2^-9 of themselves, weights independently of each other.
inline void expect_the_formula(const Trial& trial) {
    const Matrix want = reference("attention", trial.problem()), got = trial.forward(1).out[0].matrix();
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
inline void expect_one_derivative(const Trial& trial) {
    const ForwardResult kept = trial.forward(1);
    const Matrix pulled = trial.backward(kept, 1).grad_in[0].matrix(), v = trial.grad_out();
    const std::vector<Value> tangents = trial.tangent(kept, 1);
    const auto inner = [](const Matrix& a, const Matrix& b) {
        double sum = 0;
        for (size_t i = 0; i < a.numbers.size(); ++i) sum += a.numbers[i] * b.numbers[i];
        return sum;
    };
    for (int d = 0; d < Trial::kDirections; ++d) {
        const Matrix u = trial.tangents_in(d)[0], pushed = tangents[static_cast<size_t>(d)].matrix();
        const double size = std::sqrt(inner(pushed, pushed)) + std::sqrt(inner(pulled, pulled));
        EXPECT_NEAR(inner(v, pushed), inner(pulled, u), 8 * 0x1p-8 * size) << "direction " << d;
    }
}

}  // namespace windlass::agree
