#include "op/factors.h"

#include "op/gemm.h"

namespace windlass {
namespace {

constexpr IsaKernel<const FactorLoops> kFactorLoops{&baseline::kFactorLoops, &avx2::kFactorLoops,
                                                    &avx512::kFactorLoops};

// A product's operands have one type.
Tensor converted(const Tensor& factor, DType compute, Scratch& scratch, Team& team) {
    if (factor.dtype == compute) return factor;
    WINDLASS_CHECK(compute == DType::bf16, "factors of {} where {} is computed with", dtype_name(factor.dtype),
                   dtype_name(compute));
    const int64_t cols = factor.cols();
    const Tensor narrow(compute, factor.shape, scratch.floats((factor.numel() + 1) / 2));
    for_row_chunks(factor.rows(), rows_per_chunk(cols), team, [&](int64_t begin, int64_t end, int) {
        convert_loops().narrow(factor.as<float>() + begin * cols, narrow.as<uint16_t>() + begin * cols,
                               (end - begin) * cols);
    });
    return narrow;
}

}  // namespace

const FactorLoops& factor_loops() {
    return *kFactorLoops.pick();
}

InnerProducts::InnerProducts(const Tensor& inner, int64_t tokens, const OpSize& size, Scratch& scratch, Team& team)
    : rank_(inner.rows() / size.k), inner_(converted(inner, size.compute, scratch, team)) {
    products_ = Tensor(DType::f32, {tokens, inner.rows()}, scratch.floats(tokens * inner.rows()));
}

int64_t InnerProducts::bytes(int64_t cols, int64_t rank, int64_t tokens, const OpSize& size) {
    const int64_t rows = size.k * rank;
    const int64_t narrow = size.compute == DType::bf16 ? float_bytes((rows * cols + 1) / 2) : 0;
    return narrow + float_bytes(tokens * rows);
}

void InnerProducts::compute(const Tensor& x, Team& team) {
    gemm({.a = x, .b = inner_, .c = products_.slice_rows(0, x.rows()), .transpose_b = true}, team);
}

}  // namespace windlass
