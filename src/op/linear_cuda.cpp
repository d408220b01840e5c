#include "op/cells_cuda.h"
#include "op/cuda_kernels.h"
#include "op/linear.h"
#include "op/linear_kernels_cuda.h"
#include "op/ops.h"
#include "op/products_cuda.h"

namespace windlass {
namespace linear_cells {

// A call with its weight in the type of the computation, and the scratch that is left.
struct Linear {
    Linear(const OpCall& call, DiffMode mode, Stream& stream)
        : call(call),
          stream(stream),
          scratch(call.scratch),
          in_out(call.spec->get<LinearAttrs>().in_out),
          has_bias(call.weights.size() == 2),
          weight(cuda_matrix(call.weights[0], *call.size, scratch, stream)),
          workspace(scratch.take(linear_workspace_bytes(*call.spec, *call.size, mode))) {}

    void product(const GemmArgs& args) const { cuda_product(args, workspace, stream); }

    const OpCall& call;
    Stream& stream;
    CudaScratch scratch;
    const bool in_out, has_bias;
    const Tensor weight;
    const std::span<std::byte> workspace;
};

void forward(const OpCall& call, Stream& stream) {
    Linear linear(call, DiffMode::forward, stream);
    Tensor bias;
    if (linear.has_bias) bias = cuda_matrix(call.weights[1], *call.size, linear.scratch, stream);
    linear.product(
        {.a = call.in[0], .b = linear.weight, .c = call.out[0], .transpose_b = !linear.in_out, .bias = bias});
}

// dX = dY W; dW (+)= dY^T X [out, in], or X^T dY [in, out]; db (+)= column sums of dY.
void backward(const OpCall& call, Stream& stream) {
    Linear linear(call, DiffMode::vjp, stream);
    const Tensor &x = call.in[0], &dy = call.grad_out[0], &dx = call.grad_in[0];
    if (!dx.empty())
        linear.product({.a = dy,
                        .b = linear.weight,
                        .c = dx,
                        .transpose_b = linear.in_out,
                        .accumulate = call.add_to_grad_in[0] != 0});
    const GradientSink& sink = call.sinks[0];
    if (sink.wanted())
        linear.product({.a = linear.in_out ? x : dy,
                        .b = linear.in_out ? dy : x,
                        .c = sink.target,
                        .transpose_a = true,
                        .accumulate = !sink.first});
    if (!linear.has_bias) return;
    const int64_t rows = dy.rows(), cols = dy.cols();
    launch_column_sum(
        computes_bf16(call),
        {cuda_value(dy), rows, cols, cuda_sum(call.sinks[1], linear.scratch.floats(cuda_sum_floats(rows, cols)))},
        cuda_handle(stream));
}

// What is added to y, or written there where `adds` is not set, besides products.
CombineArgs combine_args(const OpCall& call, const Tensor& y, bool adds) {
    return {.y = {y.data, y.row_stride, adds},
            .tokens = call.size->tokens(),
            .cols = y.cols(),
            .bias = call.weights.size() == 2 ? cuda_direction(call.weights[1]) : nullptr};
}

// dy_j (+)= (x inner_j^T) outer_j + db_j, of all directions.
void tangents_of_factors(Linear& linear, bool adds) {
    const OpCall& call = linear.call;
    const Tensor &left = call.weights[0].left, &right = call.weights[0].right;
    CombineArgs args = combine_args(call, call.tangent_out[0], adds);
    args.directions = call.size->k;
    args.rank = left.rows() / args.directions;
    args.outer = (linear.in_out ? right : left).as<float>();
    args.products = cuda_inner_products(call.in[0], linear.in_out ? left : right, *call.size, linear.scratch,
                                        linear.workspace, linear.stream)
                        .as<float>();
    launch_combine(computes_bf16(call), args, cuda_handle(linear.stream));
}

// dy_j (+)= x dW_j^T + db_j, where either may be missing; what no term writes is zero.
void tangent_of_weights(const Linear& linear, int j, bool adds) {
    const OpCall& call = linear.call;
    const int64_t tokens = call.size->tokens();
    const Tensor out = call.tangent_out[0].slice_rows(j * tokens, tokens);
    const Tensor direction = direction_of(call.weights[0], j);
    const Tensor bias = linear.has_bias ? direction_of(call.weights[1], j) : Tensor();
    if (!direction.empty())
        return linear.product({.a = call.in[0],
                               .b = direction,
                               .c = out,
                               .transpose_b = !linear.in_out,
                               .accumulate = adds,
                               .bias = bias});
    if (adds && bias.empty()) return;
    CombineArgs args = combine_args(call, out, adds);
    args.bias = bias.data;
    launch_combine(computes_bf16(call), args, cuda_handle(linear.stream));
}

// dy_j = dx_j W^T + x dW_j^T + db_j.
void tangent(const OpCall& call, Stream& stream) {
    Linear linear(call, DiffMode::jvp, stream);
    const Tensor &dx = call.tangent_in[0], &dy = call.tangent_out[0];
    if (!dx.empty()) linear.product({.a = dx, .b = linear.weight, .c = dy, .transpose_b = !linear.in_out});
    if (!call.weights[0].left.empty()) return tangents_of_factors(linear, !dx.empty());
    for (int j = 0; j < call.size->k; ++j) tangent_of_weights(linear, j, !dx.empty());
}

}  // namespace linear_cells

constinit const OpKernels kLinearCuda{
    .forward = linear_cells::forward, .vjp = linear_cells::backward, .jvp = linear_cells::tangent};

}  // namespace windlass
