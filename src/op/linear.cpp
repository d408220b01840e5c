#include "op/linear.h"

#include "op/cuda_kernels.h"
#include "op/factors.h"
#include "op/gemv.h"
#include "op/ops.h"
#include "op/products_cuda.h"
#include "op/sample.h"
#include "op/sums_cuda.h"

namespace windlass {
namespace linear_op {

int64_t in_axis(const OpSpec& spec) {
    return spec.get<LinearAttrs>().in_out ? 0 : 1;
}

void infer(OpSpec& spec) {
    WINDLASS_CHECK(
        spec.in.size() == 1 && (spec.weights.size() == 1 || spec.weights.size() == 2) && spec.weights[0].rank() == 2,
        "linear has {} inputs and {} weights", spec.in.size(), spec.weights.size());
    const Shape& weight = spec.weights[0];
    const int axis = static_cast<int>(in_axis(spec));
    const int64_t width = weight[1 - axis];
    WINDLASS_CHECK(spec.in[0].cols == weight[axis] && spec.in[0].type == ValueType::compute,
                   "linear of {} columns by a weight {}", spec.in[0].cols, weight.to_string());
    WINDLASS_CHECK(spec.weights.size() == 1 || spec.weights[1] == Shape({width}), "linear of {} outputs with a bias {}",
                   width, spec.weights[1].to_string());
    spec.out = {{.cols = width}};
    spec.saved.clear();
}

// A direction in full is a product of its own; of factors, two of as many columns as its rank.
Cost tangent_cost(const OpSpec& spec, const OpSize& size, double product) {
    const Shape& weight = spec.weights[0];
    const int64_t values = value_bytes(spec.in, size) + value_bytes(spec.out, size);
    const int64_t weight_bytes = weight.numel() * dtype_bytes(size.compute), rank = factor_rank(size, weight);
    if (rank == 0) return {2 * product * size.k, 2 * product * size.k, (2 * values + 2 * weight_bytes) * size.k};
    const auto narrow = 2.0 * static_cast<double>(size.tokens() * rank * (weight[0] + weight[1]));
    const double flops = (product + narrow) * size.k;
    return {flops, flops, weight_bytes + 2 * values * size.k};
}

Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const int64_t weight = spec.weights[0].numel();
    const double product = 2.0 * static_cast<double>(size.tokens()) * static_cast<double>(weight);
    const int64_t values = value_bytes(spec.in, size) + value_bytes(spec.out, size);
    const int64_t weight_bytes = weight * (dtype_bytes(size.compute));
    switch (mode) {
        case DiffMode::forward:
            return {product, product, values + weight_bytes};
        // dX, and dW, which is read and written in f32.
        case DiffMode::vjp:
            if (!size.trains_weights) return {product, product, values + weight_bytes};
            return {2 * product, 2 * product, 2 * values + weight_bytes + 2 * 4 * weight};
        case DiffMode::jvp:
            return tangent_cost(spec, size, product);
    }
    return {};
}

OpSample sample(const OpSpec& spec, const OpSize& size) {
    return sample_product(spec, size, static_cast<int>(in_axis(spec)));
}

int64_t factor_scratch_bytes(const OpSpec& spec, const OpSize& size) {
    const int64_t rank = factor_rank(size, spec.weights[0]), width = spec.out[0].cols;
    return InnerProducts::bytes(spec.in[0].cols, rank, size.tokens(), size) + WorkerRows::bytes(size, width) +
           (spec.weights.size() == 2 ? VectorTangents::bytes(size, width) : 0);
}

int64_t scratch_bytes(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    int64_t bytes = read_matrix_bytes(spec.weights[0], size);
    if (mode == DiffMode::forward && is_gemv(size))
        bytes += gemv_space_bytes(spec.in[0].cols, spec.out[0].cols, !spec.get<LinearAttrs>().in_out);
    if (mode == DiffMode::jvp && factor_rank(size, spec.weights[0]) > 0)
        return bytes + factor_scratch_bytes(spec, size);
    if (spec.weights.size() == 1) return bytes;
    const int64_t width = spec.weights[1].numel();
    if (mode != DiffMode::vjp) return bytes + float_bytes(width);
    return bytes + VectorGradient::bytes(size.tokens(), width) + WorkerRows::bytes(size, width);
}

int64_t scratch_bytes_cuda(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const Shape& weight = spec.weights[0];
    const int64_t tokens = size.tokens(), width = spec.out[0].cols;
    int64_t bytes = cuda_matrix_bytes(size, weight.numel()) + linear_workspace_bytes(spec, size, mode);
    if (mode == DiffMode::jvp)
        bytes += cuda_inner_product_bytes(tokens, spec.in[0].cols, factor_rank(size, weight), size);
    if (spec.weights.size() == 1) return bytes;
    if (mode == DiffMode::vjp) return bytes + CudaScratch::bytes_of(cuda_sum_floats(tokens, width));
    return bytes + (mode == DiffMode::forward ? cuda_matrix_bytes(size, width) : 0);
}

// Each alone is read in microseconds: handing it out to threads would take a part of that.
bool joins(const OpSpec& spec, const OpSize& size) {
    return is_gemv(size) && !spec.get<LinearAttrs>().in_out;
}

std::string describe(const OpSpec& spec) {
    return fmt::format("{}{}", spec.get<LinearAttrs>().in_out ? "in_out" : "out_in",
                       spec.weights.size() == 2 ? " bias" : "");
}

OpCase make_case(std::string name, bool in_out, bool bias, int64_t in, int64_t out) {
    OpCase test{.name = std::move(name)};
    test.spec.attrs = LinearAttrs{in_out};
    test.spec.in = {{.cols = in}};
    test.spec.weights = {in_out ? Shape{in, out} : Shape{out, in}};
    if (bias) test.spec.weights.push_back({out});
    return test;
}

std::vector<OpCase> cases() {
    std::vector<OpCase> all = {make_case("out_in", false, false, 24, 40), make_case("out_in bias", false, true, 24, 40),
                               make_case("in_out", true, false, 40, 24), make_case("in_out bias", true, true, 33, 17),
                               make_case("one column", false, true, 5, 1)};
    // As few tokens as decoding has, in whole packs of 16 bytes and not.
    all.push_back(make_case("few tokens", false, true, 296, 9));
    all.back().rows = 1;
    all.back().sequence_length = 3;
    all.push_back(make_case("one token, odd sizes", false, false, 37, 10));
    all.back().rows = 1;
    all.back().sequence_length = 1;
    // More tokens than a chunk of the bias gradient, more columns than a panel.
    all.push_back(make_case("several panels", false, true, 19, 200));
    all.back().rows = 3;
    all.back().sequence_length = 67;
    return all;
}

constexpr OpKernels kCpu{.forward = linear_forward_cpu,
                         .vjp = linear_backward_cpu,
                         .jvp = linear_tangent_cpu,
                         .together = linear_together_cpu};

}  // namespace linear_op

constinit const OpRecord kLinear{
    .name = "linear",
    .infer = linear_op::infer,
    .work = OpWork::product,
    .sample = linear_op::sample,
    .describe = linear_op::describe,
    .same_attributes = equal_attributes<LinearAttrs>,
    .reads = {.in = true, .out = false, .in_for_weights = true},
    .joins = linear_op::joins,
    .cases = linear_op::cases,
    .cells =
        cells_of({.cost = linear_op::cost, .scratch_bytes = linear_op::scratch_bytes, .kernels = &linear_op::kCpu},
                 {.cost = linear_op::cost, .scratch_bytes = linear_op::scratch_bytes_cuda, .kernels = &kLinearCuda}),
};

}  // namespace windlass
