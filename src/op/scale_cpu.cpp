#include "op/loops_cpu.h"
#include "op/ops.h"
#include "op/scale.h"

namespace windlass {
namespace {

constexpr IsaKernel<const ScaleLoops> kScaleLoops{&baseline::kScaleLoops, &avx2::kScaleLoops, &avx512::kScaleLoops};

// A row as a value of this shape: all its rows are this one.
Tensor repeated(const float* row, const Shape& shape) {
    return {DType::f32, shape, 0, const_cast<float*>(row)};
}

// factor * w, which all rows share.
const float* slopes(const OpCall& call, Scratch& scratch) {
    const int64_t cols = call.spec->in[0].cols;
    const float factor = scale_factor(call);
    float* const to = scratch.floats(cols);
    if (call.weights.empty()) {
        std::fill_n(to, cols, factor);
    } else {
        read_weight_row(call.weights[0], 0, call.size->compute, to);
        kScaleLoops.pick()->by_factor(factor, to, to, cols);
    }
    return to;
}

void run_product(const float* slope, const Tensor& x, const Output& y, Stream& stream) {
    const Shape& shape = y.value.shape;
    const std::array in = {repeated(slope, shape), x};
    run_pointwise(kScaleLoops.pick()->product, in, {&y, 1}, cpu_team(stream));
}

}  // namespace

void scale_forward_cpu(const OpCall& call, Stream& stream) {
    Scratch scratch(call.scratch);
    run_product(slopes(call, scratch), call.in[0], {call.out[0]}, stream);
}

void scale_backward_cpu(const OpCall& call, Stream& stream) {
    const Tensor &in = call.in[0], &grad_out = call.grad_out[0];
    const Output grad_in = grad_output(call, 0);
    Scratch scratch(call.scratch);
    const float* const slope = slopes(call, scratch);
    if (call.sinks.empty() || !call.sinks[0].wanted()) return run_product(slope, grad_out, grad_in, stream);

    const ScaleLoops& loops = *kScaleLoops.pick();
    const int64_t rows = grad_out.rows(), cols = grad_out.cols();
    const float factor = scale_factor(call);
    const WorkerRows x(scratch, *call.size, kScaleBlock), dy(scratch, *call.size, kScaleBlock),
        dx(scratch, *call.size, kScaleBlock);
    VectorGradient gradient(call.sinks[0], rows, cols, scratch);
    // grad_out is read once, for both gradients.
    const auto run_block = [&](int64_t t, int64_t col, int64_t n, float* grad_w, int worker) {
        const int64_t at = t * grad_in.value.row_stride + col;
        const float* const grad = read_numbers(grad_out, t * grad_out.row_stride + col, n, dy[worker]);
        const std::array<const float*, 2> from = {slope + col, grad};
        float* const to = grad_in.begin(at, dx[worker]);
        loops.product(from.data(), &to, n);
        grad_in.end(at, n, to);
        loops.add_weight_gradient(factor, grad, read_numbers(in, t * in.row_stride + col, n, x[worker]), grad_w, n);
    };
    Team& team = cpu_team(stream);
    for_row_chunks(rows, VectorGradient::chunk_rows(rows), team, [&](int64_t begin, int64_t end, int worker) {
        float* const grad_w = gradient.begin_chunk(begin);
        for (int64_t t = begin; t < end; ++t) {
            for (int64_t col = 0; col < cols; col += kScaleBlock)
                run_block(t, col, std::min(kScaleBlock, cols - col), grad_w + col, worker);
        }
    });
    gradient.finish(team);
}

void scale_tangent_cpu(const OpCall& call, Stream& stream) {
    const ScaleLoops& loops = *kScaleLoops.pick();
    const Tensor &in = call.in[0], &tangent_in = call.tangent_in[0], &tangent_out = call.tangent_out[0];
    Scratch scratch(call.scratch);
    const float* const slope = slopes(call, scratch);
    if (call.weights.empty() || call.weights[0].direction.empty())
        return run_product(slope, tangent_in, {tangent_out}, stream);

    const int64_t rows = in.rows(), cols = in.cols();
    float* const slope_tangent = scratch.floats(cols);
    const VectorTangents tangent_w(call.weights[0], *call.size, scratch);
    for (int64_t d = 0; d < call.size->k; ++d) {
        loops.by_factor(scale_factor(call), tangent_w[d], slope_tangent, cols);
        const Tensor tangent = tangent_in.empty() ? tangent_in : tangent_in.slice_rows(d * rows, rows);
        const std::array from = {repeated(slope, in.shape), tangent, repeated(slope_tangent, in.shape), in};
        const Output out{tangent_out.slice_rows(d * rows, rows)};
        run_pointwise(loops.sum_of_products, from, {&out, 1}, cpu_team(stream));
    }
}

}  // namespace windlass
