#include <cstring>
#include <optional>

#include "base/math.h"
#include "op/factors.h"
#include "op/gemm.h"
#include "op/gemv.h"
#include "op/linear.h"
#include "op/ops.h"

namespace windlass {
namespace {

bool in_out(const OpCall& call) {
    return call.spec->get<LinearAttrs>().in_out;
}

// dW (+)= dY^T X [out, in], or X^T dY [in, out]: K is the tokens.
void weight_gradient(const OpCall& call, Team& team) {
    const GradientSink& sink = call.sinks[0];
    if (!sink.wanted()) return;
    const Tensor &x = call.in[0], &dy = call.grad_out[0];
    gemm({.a = in_out(call) ? x : dy,
          .b = in_out(call) ? dy : x,
          .c = sink.target,
          .transpose_a = true,
          .accumulate = !sink.first},
         team);
}

// db (+)= column sums of dY.
void bias_gradient(const OpCall& call, Scratch& scratch, Team& team) {
    const Tensor& dy = call.grad_out[0];
    VectorGradient gradient(call.sinks[1], dy.rows(), dy.cols(), scratch);
    if (!gradient.wanted()) return;
    const WorkerRows buffers(scratch, *call.size, dy.cols());
    const int64_t chunk = VectorGradient::chunk_rows(dy.rows());
    for_row_chunks(dy.rows(), chunk, team, [&](int64_t begin, int64_t end, int worker) {
        float* const sums = gradient.begin_chunk(begin);
        for (int64_t row = begin; row < end; ++row) {
            convert_loops().add(read_row(dy, row, dy.cols(), buffers[worker]), sums, dy.cols());
        }
    });
    gradient.finish(team);
}

// dy_j (+)= x dW_j^T + db_j, where either may be missing; what no term writes is zero.
void tangent_of_weights(const OpCall& call, int j, Scratch scratch, Team& team) {
    const int64_t tokens = call.size->tokens();
    const Tensor out = call.tangent_out[0].slice_rows(j * tokens, tokens);
    const bool add = !call.tangent_in[0].empty();
    const Tensor direction = direction_of(call.weights[0], j);
    const Tensor bias = call.weights.size() == 2 ? direction_of(call.weights[1], j) : Tensor();
    if (!direction.empty()) {
        gemm({.a = call.in[0], .b = direction, .c = out, .transpose_b = !in_out(call), .accumulate = add, .bias = bias},
             team);
        return;
    }
    if (!add) write_zeros(out, team);
    if (bias.empty()) return;
    const float* const shift = read_numbers(bias, 0, bias.numel(), scratch.floats(bias.numel()));
    for (int64_t row = 0; row < tokens; ++row) Output{out, true}.end_row(row, shift);
}

// dy_j (+)= (x inner_j^T) outer_j + db_j.
void tangents_of_factors(const OpCall& call, Scratch scratch, Team& team) {
    const Tensor &left = call.weights[0].left, &right = call.weights[0].right;
    const Tensor &inner = in_out(call) ? left : right, &outer = in_out(call) ? right : left;
    const int64_t tokens = call.size->tokens();
    InnerProducts products(inner, tokens, *call.size, scratch, team);
    products.compute(call.in[0], team);
    const Output out{call.tangent_out[0], !call.tangent_in[0].empty()};
    const int64_t cols = out.value.cols(), rank = products.rank();
    const WorkerRows rows(scratch, *call.size, cols);
    std::optional<VectorTangents> bias;
    if (call.weights.size() == 2) bias.emplace(call.weights[1], *call.size, scratch);
    for_row_chunks(out.value.rows(), rows_per_chunk(cols), team, [&](int64_t begin, int64_t end, int worker) {
        for (int64_t row = begin; row < end; ++row) {
            const int64_t j = row / tokens, bytes = cols * static_cast<int64_t>(sizeof(float));
            const float* const shift = bias ? (*bias)[j] : nullptr;
            float* const to = out.begin_row(row, rows[worker]);
            if (shift != nullptr)
                std::memcpy(to, shift, static_cast<size_t>(bytes));
            else
                std::memset(to, 0, static_cast<size_t>(bytes));
            factor_loops().add_combination(outer.as<float>() + j * rank * cols, cols, products.of(row % tokens, j),
                                           rank, to, cols);
            out.end_row(row, to);
        }
    });
}

// `scratch` is the call's own, and holds what the product reads until that is done.
GemmArgs forward_product(const OpCall& call, Scratch& scratch, Team& team) {
    GemmArgs product{.a = call.in[0],
                     .b = read_matrix(call.weights[0], *call.size, scratch, team),
                     .c = call.out[0],
                     .transpose_b = !in_out(call)};
    if (call.weights.size() == 2) {
        const Shape& bias = call.weights[1].base.shape;
        product.bias = Tensor(DType::f32, bias, const_cast<float*>(read_vector(call.weights[1], *call.size, scratch)));
    }
    return product;
}

}  // namespace

bool is_gemv(const OpSize& size) {
    return size.tokens() == 1;
}

int64_t read_matrix_bytes(const Shape& shape, const OpSize& size) {
    return size.split_weights && size.compute == DType::f32 ? float_bytes(shape.numel()) : 0;
}

Tensor read_matrix(const Weight& weight, const OpSize& size, Scratch& scratch, Team& team) {
    if (weight.base.dtype == size.compute) return weight.base;
    WINDLASS_CHECK(size.compute == DType::f32 && size.split_weights, "a weight of {} where {} is computed with",
                   dtype_name(weight.base.dtype), dtype_name(size.compute));
    const int64_t rows = weight.base.rows(), cols = weight.base.cols();
    const Tensor joined(DType::f32, weight.base.shape, scratch.floats(rows * cols));
    for_row_chunks(rows, rows_per_chunk(cols), team, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            read_weight_row(weight, row, size.compute, joined.as<float>() + row * cols);
        }
    });
    return joined;
}

void write_zeros(const Tensor& value, Team& team) {
    for_row_chunks(value.rows(), rows_per_chunk(value.cols()), team, [&](int64_t begin, int64_t end, int) {
        const int64_t bytes = dtype_bytes(value.dtype);
        for (int64_t row = begin; row < end; ++row) {
            std::memset(value.as<std::byte>() + row * value.row_stride * bytes, 0,
                        static_cast<size_t>(value.cols() * bytes));
        }
    });
}

Tensor direction_of(const Weight& weight, int j) {
    const Shape& shape = weight.base.shape;
    if (weight.direction.empty()) return {};
    if (shape.rank() == 2) return weight.direction.slice_rows(j * shape[0], shape[0]);
    const Tensor row = weight.direction.slice_rows(j, 1);
    return {row.dtype, shape, row.data};
}

void linear_forward_cpu(const OpCall& call, Stream& stream) {
    Team& team = cpu_team(stream);
    Scratch scratch(call.scratch);
    const GemmArgs product = forward_product(call, scratch, team);
    if (!is_gemv(*call.size)) return gemm(product, team);
    const int64_t space = gemv_space_bytes(call.in[0].cols(), call.out[0].cols(), product.transpose_b);
    gemv(product, scratch.floats(space / static_cast<int64_t>(sizeof(float))), team);
}

void linear_together_cpu(std::span<const OpCall> calls, Stream& stream) {
    Team& team = cpu_team(stream);
    std::vector<GemmArgs> products;
    for (const OpCall& call : calls) {
        Scratch scratch(call.scratch);
        products.push_back(forward_product(call, scratch, team));
    }
    gemv_together(products, team);
}

void linear_backward_cpu(const OpCall& call, Stream& stream) {
    Team& team = cpu_team(stream);
    Scratch scratch(call.scratch);
    const Output grad_in = grad_output(call, 0);
    if (!grad_in.value.empty()) {
        gemm({.a = call.grad_out[0],
              .b = read_matrix(call.weights[0], *call.size, scratch, team),
              .c = grad_in.value,
              .transpose_b = in_out(call),
              .accumulate = grad_in.add},
             team);
    }
    weight_gradient(call, team);
    if (call.weights.size() == 2) bias_gradient(call, scratch, team);
}

// dy_j = dx_j W^T + x dW_j^T + db_j.
void linear_tangent_cpu(const OpCall& call, Stream& stream) {
    Team& team = cpu_team(stream);
    Scratch scratch(call.scratch);
    const Tensor &dx = call.tangent_in[0], &dy = call.tangent_out[0];
    if (!dx.empty()) {
        const Tensor weight = read_matrix(call.weights[0], *call.size, scratch, team);
        gemm({.a = dx, .b = weight, .c = dy, .transpose_b = !in_out(call)}, team);
    }
    if (!call.weights[0].left.empty()) return tangents_of_factors(call, scratch, team);
    for (int j = 0; j < call.size->k; ++j) tangent_of_weights(call, j, scratch, team);
}

}  // namespace windlass
