#include <algorithm>
#include <array>
#include <cmath>

#include "op/factors.h"
#include "op/loops_cpu.h"
#include "op/magnitude.h"
#include "op/ops.h"

namespace windlass {
namespace {

constexpr IsaKernel<const MagnitudeLoops> kMagnitudeLoops{&baseline::kMagnitudeLoops, &avx2::kMagnitudeLoops,
                                                          &avx512::kMagnitudeLoops};

// A factor times `scale` in f32, or its transpose.
const float* read_factor(const Weight& factor, bool turned, float scale, DType compute, Scratch& scratch) {
    const int64_t rows = factor.base.rows(), cols = factor.base.cols();
    float *const to = scratch.floats(rows * cols), *const row = scratch.floats(cols);
    for (int64_t i = 0; i < rows; ++i) {
        read_weight_row(factor, i, compute, row);
        for (int64_t j = 0; j < cols; ++j) to[turned ? j * rows + i : i * cols + j] = scale * row[j];
    }
    return to;
}

int64_t factor_bytes(const Shape& factor) {
    return float_bytes(factor.numel()) + float_bytes(factor[1]);
}

// W + s B A as W is stored: row i is row i of W plus left_i right. Of a W [out, in] left is s B and right A; of one
// [in, out] left is s A^T and right B^T.
struct SumMatrix {
    const Weight& w;
    const float *left, *right;  // [rows, rank], [rank, cols]
    int64_t rank;
    DType compute;

    // Columns [col, col + n) of row i.
    void read(int64_t i, int64_t col, int64_t n, float* to) const {
        const Weight part{.base = w.base.slice_cols(col, n), .low = w.low.empty() ? w.low : w.low.slice_cols(col, n)};
        read_weight_row(part, i, compute, to);
        factor_loops().add_combination(right + col, w.base.cols(), left + i * rank, rank, to, n);
    }
};

SumMatrix sum_matrix(const OpCall& call, Scratch& scratch) {
    const auto& [in_out, scale] = call.spec->get<MagnitudeAttrs>();
    const DType compute = call.size->compute;
    const auto s = static_cast<float>(scale);
    const Weight &a = call.weights[kMagnitudeA], &b = call.weights[kMagnitudeB];
    const float* const left = read_factor(in_out ? a : b, in_out, s, compute, scratch);
    const float* const right = read_factor(in_out ? b : a, in_out, 1, compute, scratch);
    return {call.weights[kMagnitudeW], left, right, a.base.rows(), compute};
}

// The norm of each output's numbers, as the computation's type holds it. Sums are in f64, so that the order in which a
// device adds decides nothing: what begins as the norm divides to 1 everywhere.
float norm_of(double squares, DType compute) {
    const auto norm = static_cast<float>(std::sqrt(squares));
    return compute == DType::bf16 ? to_float(to_bf16(norm)) : norm;
}

void norms_of_rows(const SumMatrix& sum, WorkerRows& rows, float* norms, Team& team) {
    const int64_t cols = sum.w.base.cols();
    for_row_chunks(sum.w.base.rows(), rows_per_chunk(cols), team, [&](int64_t begin, int64_t end, int worker) {
        for (int64_t i = begin; i < end; ++i) {
            sum.read(i, 0, cols, rows[worker]);
            norms[i] = norm_of(kMagnitudeLoops.pick()->squares(rows[worker], cols), sum.compute);
        }
    });
}

void norms_of_columns(const SumMatrix& sum, float* norms, Team& team) {
    for_row_chunks(sum.w.base.cols(), kMagnitudeColumns, team, [&](int64_t begin, int64_t end, int) {
        std::array<float, kMagnitudeColumns> numbers;
        std::array<double, kMagnitudeColumns> squares{};
        for (int64_t i = 0; i < sum.w.base.rows(); ++i) {
            sum.read(i, begin, end - begin, numbers.data());
            kMagnitudeLoops.pick()->add_squares(numbers.data(), squares.data(), end - begin);
        }
        for (int64_t col = begin; col < end; ++col)
            norms[col] = norm_of(squares[static_cast<size_t>(col - begin)], sum.compute);
    });
}

// What all rows share, [F] each.
struct Slopes {
    float *c, *inverse;  // m / norm, 1 / norm; 0 where the norm is 0
    const float* b;      // null: zeros

    Slopes(const OpCall& call, Scratch& scratch, Team& team) {
        const int64_t cols = call.spec->in[0].cols;
        c = scratch.floats(cols);
        inverse = scratch.floats(cols);
        b = call.weights.size() > kMagnitudeBias ? read_vector(call.weights[kMagnitudeBias], *call.size, scratch)
                                                 : nullptr;
        const SumMatrix sum = sum_matrix(call, scratch);
        if (call.spec->get<MagnitudeAttrs>().in_out) {
            norms_of_columns(sum, inverse, team);
        } else {
            WorkerRows rows(scratch, *call.size, sum.w.base.cols());
            norms_of_rows(sum, rows, inverse, team);
        }
        read_weight_row(call.weights[kMagnitudeM], 0, call.size->compute, c);
        for (int64_t i = 0; i < cols; ++i) {
            const float norm = inverse[i];
            c[i] = norm > 0 ? c[i] / norm : 0;
            inverse[i] = norm > 0 ? 1 / norm : 0;
        }
    }
    static int64_t bytes(const OpSpec& spec, const OpSize& size) {
        const bool in_out = spec.get<MagnitudeAttrs>().in_out;
        return 3 * float_bytes(spec.in[0].cols) + factor_bytes(spec.weights[kMagnitudeA]) +
               factor_bytes(spec.weights[kMagnitudeB]) +
               (in_out ? 0 : WorkerRows::bytes(size, spec.weights[kMagnitudeW][1]));
    }
};

// A row as a value of this shape: all its rows are this one. Null: zeros.
Tensor rows_like(const float* row, const Shape& shape) {
    return {DType::f32, shape, 0, const_cast<float*>(row)};
}

}  // namespace

int64_t magnitude_scratch_bytes_cpu(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const int64_t cols = spec.in[0].cols, slopes = Slopes::bytes(spec, size);
    if (mode == DiffMode::forward) return slopes;
    if (mode == DiffMode::jvp) return slopes + float_bytes(cols) + VectorTangents::bytes(size, cols);
    return slopes + 2 * WorkerRows::bytes(size, kMagnitudeBlock) + VectorGradient::bytes(size.tokens(), cols);
}

// y = c x + (1 - c) b: where c is 1, x as it is.
void magnitude_forward_cpu(const OpCall& call, Stream& stream) {
    Scratch scratch(call.scratch);
    const Slopes slopes(call, scratch, cpu_team(stream));
    const Tensor& x = call.in[0];
    const std::array in = {rows_like(slopes.c, x.shape), rows_like(slopes.b, x.shape), x};
    const Output out{call.out[0]};
    run_pointwise(kMagnitudeLoops.pick()->forward, in, {&out, 1}, cpu_team(stream));
}

// dx = c dy;  dm += dy (x - b) / norm
void magnitude_backward_cpu(const OpCall& call, Stream& stream) {
    const MagnitudeLoops& loops = *kMagnitudeLoops.pick();
    Team& team = cpu_team(stream);
    const Tensor &in = call.in[0], &grad_out = call.grad_out[0];
    const Output grad_in = grad_output(call, 0);
    const int64_t rows = grad_out.rows(), cols = grad_out.cols();
    Scratch scratch(call.scratch);
    const Slopes slopes(call, scratch, team);
    const std::array from = {rows_like(slopes.c, grad_out.shape), grad_out};
    if (!grad_in.value.empty()) run_pointwise(loops.backward, from, {&grad_in, 1}, team);
    VectorGradient gradient(call.sinks.empty() ? GradientSink{} : call.sinks[kMagnitudeM], rows, cols, scratch);
    if (!gradient.wanted()) return;
    const WorkerRows x(scratch, *call.size, kMagnitudeBlock), dy(scratch, *call.size, kMagnitudeBlock);
    for_row_chunks(rows, VectorGradient::chunk_rows(rows), team, [&](int64_t begin, int64_t end, int worker) {
        float* const sums = gradient.begin_chunk(begin);
        for (int64_t t = begin; t < end; ++t) {
            for (int64_t col = 0; col < cols; col += kMagnitudeBlock) {
                const int64_t n = std::min(kMagnitudeBlock, cols - col);
                const float* const grad = read_numbers(grad_out, t * grad_out.row_stride + col, n, dy[worker]);
                const float* const numbers = read_numbers(in, t * in.row_stride + col, n, x[worker]);
                const float* const b = slopes.b == nullptr ? nullptr : slopes.b + col;
                loops.add_gradient(grad, numbers, b, slopes.inverse + col, sums + col, n);
            }
        }
    });
    gradient.finish(team);
}

// y' = c x' + (m' / norm) (x - b), of each direction
void magnitude_tangent_cpu(const OpCall& call, Stream& stream) {
    const MagnitudeLoops& loops = *kMagnitudeLoops.pick();
    Team& team = cpu_team(stream);
    const Tensor &in = call.in[0], &tangent_in = call.tangent_in[0], &tangent_out = call.tangent_out[0];
    const int64_t rows = in.rows(), cols = in.cols();
    Scratch scratch(call.scratch);
    const Slopes slopes(call, scratch, team);
    const bool moves = !call.weights[kMagnitudeM].direction.empty();
    float* const moved = scratch.floats(cols);
    const VectorTangents tangent_m(call.weights[kMagnitudeM], *call.size, scratch);
    for (int64_t d = 0; d < call.size->k; ++d) {
        const Tensor tangent = tangent_in.empty() ? tangent_in : tangent_in.slice_rows(d * rows, rows);
        const Output out{tangent_out.slice_rows(d * rows, rows)};
        if (!moves) {
            const std::array from = {rows_like(slopes.c, in.shape), tangent};
            run_pointwise(loops.backward, from, {&out, 1}, team);
            continue;
        }
        for (int64_t i = 0; i < cols; ++i) moved[i] = tangent_m[d][i] * slopes.inverse[i];
        const std::array from = {rows_like(slopes.c, in.shape), rows_like(moved, in.shape),
                                 rows_like(slopes.b, in.shape), in, tangent};
        run_pointwise(loops.tangent, from, {&out, 1}, team);
    }
}

}  // namespace windlass
