#include "op/cross_entropy.h"

#include "base/math.h"
#include "op/cuda_kernels.h"
#include "op/factors.h"
#include "op/linear.h"
#include "op/ops.h"
#include "op/products_cuda.h"
#include "op/sample.h"

namespace windlass {
namespace cross_entropy_op {

constexpr int64_t kTileLogits = int64_t{1} << 25;  // 128 MiB in f32
constexpr int64_t kTileStep = 64;
constexpr int64_t kTileMax = 1024;

void infer(OpSpec& spec) {
    WINDLASS_CHECK(!spec.in.empty() && spec.in.size() <= kHeadProductsMax && spec.weights.size() == spec.in.size(),
                   "cross_entropy has {} inputs and {} weights", spec.in.size(), spec.weights.size());
    for (size_t i = 0; i < spec.in.size(); ++i) {
        const Shape& weight = spec.weights[i];
        WINDLASS_CHECK(weight.rank() == 2 && weight[0] == spec.weights[0][0] && spec.in[i].cols == weight[1] &&
                           spec.in[i].type == ValueType::compute,
                       "cross_entropy of {} columns by a weight {}", spec.in[i].cols, weight.to_string());
    }
    const auto& attrs = spec.get<CrossEntropyAttrs>();
    WINDLASS_CHECK(attrs.scale > 0 && attrs.softcap >= 0, "cross_entropy of scale {} and softcap {}", attrs.scale,
                   attrs.softcap);
    spec.out = {{.cols = 1, .type = ValueType::f32}};
    spec.saved.clear();
}

int64_t weight_numbers(const OpSpec& spec) {
    int64_t numbers = 0;
    for (const Shape& weight : spec.weights) numbers += weight.numel();
    return numbers;
}

double product_flops(const OpSize& size, int64_t weights) {
    return 2.0 * static_cast<double>(size.tokens()) * static_cast<double>(weights);
}

// Logits once, and for each direction dx W^T and x dW^T, or two skinny products for the latter.
Cost tangent_cost(const OpSpec& spec, const OpSize& size, int64_t bytes) {
    double flops = 0;
    for (const Shape& weight : spec.weights) {
        const double product = product_flops(size, weight.numel());
        const int64_t rank = factor_rank(size, weight);
        const double narrow = 2.0 * static_cast<double>(size.tokens() * rank * (weight[0] + weight[1]));
        flops += product + size.k * (rank > 0 ? product + narrow : 2 * product);
    }
    return {flops, flops, (1 + size.k) * bytes};
}

// Forward: logits. Backward: logits again, dX and dW. Each tile of logits reads the weights again.
template <int64_t (*kTile)(int64_t vocab)>
Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const int64_t vocab = spec.weights[0][0], numbers = weight_numbers(spec);
    const double product = product_flops(size, numbers);
    const int64_t tiles = div_up(size.tokens(), kTile(vocab));
    const int64_t logit_bytes = size.tokens() * vocab * 4;
    const int64_t weight_bytes = numbers * dtype_bytes(size.compute);
    const int64_t trained = size.trains_weights ? numbers : numbers - spec.weights[0].numel();
    const int64_t values = value_bytes(spec.in, size) + value_bytes(spec.out, size);
    switch (mode) {
        case DiffMode::forward:
            return {product, product, values + tiles * weight_bytes + 2 * logit_bytes};
        case DiffMode::vjp:
            if (trained == 0)
                return {2 * product, 2 * product, 2 * values + tiles * 2 * weight_bytes + 4 * logit_bytes};
            return {2 * product + product_flops(size, trained), 2 * product + product_flops(size, trained),
                    2 * values + tiles * (2 * weight_bytes + 8 * trained) + 5 * logit_bytes};
        case DiffMode::jvp:
            return tangent_cost(spec, size, values + tiles * 2 * weight_bytes + 3 * logit_bytes);
    }
    return {};
}

int64_t scratch_bytes(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const int64_t vocab = spec.weights[0][0], tile = std::min(cross_entropy_tile(vocab), size.tokens());
    const int64_t logits = float_bytes(tile * cross_entropy_stride(vocab));
    int64_t bytes = logits;
    for (const Shape& weight : spec.weights) bytes += read_matrix_bytes(weight, size);
    if (mode != DiffMode::jvp) return bytes;
    for (const Shape& weight : spec.weights) {
        const int64_t rank = factor_rank(size, weight);
        if (rank > 0) bytes += InnerProducts::bytes(weight[1], rank, tile, size);
    }
    return bytes + logits + float_bytes(tile);
}

int64_t scratch_bytes_cuda(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const int64_t vocab = spec.weights[0][0], tile = std::min(cross_entropy_tile_cuda(vocab), size.tokens());
    const int64_t logits = CudaScratch::bytes_of(tile * cross_entropy_stride_cuda(vocab));
    int64_t bytes = head_workspace_bytes(spec, size) + logits;
    for (const Shape& weight : spec.weights) bytes += cuda_matrix_bytes(size, weight.numel());
    if (mode != DiffMode::jvp) return bytes;
    for (const Shape& weight : spec.weights)
        bytes += cuda_inner_product_bytes(tile, weight[1], factor_rank(size, weight), size);
    return bytes + logits + CudaScratch::bytes_of(tile);
}

// Of the product by the table alone: a second one is narrow.
OpSample sample(const OpSpec& spec, const OpSize& size) {
    OpSpec table = spec;
    table.in.resize(1);
    table.weights.resize(1);
    return sample_product(table, size, 1);
}

std::string describe(const OpSpec& spec) {
    const auto& attrs = spec.get<CrossEntropyAttrs>();
    std::string text = attrs.scale == 1 ? "" : fmt::format("scale={:.6g}", attrs.scale);
    if (attrs.softcap > 0) text += fmt::format("{}softcap={:.6g}", text.empty() ? "" : " ", attrs.softcap);
    return text;
}

OpCase make_case(std::string name, int64_t columns, int64_t vocab, int64_t sequence_length, bool documents,
                 CrossEntropyAttrs attrs = {}) {
    OpCase test{.name = std::move(name), .spec = {.attrs = attrs}};
    test.spec.in = {{.cols = columns}};
    test.spec.weights = {{vocab, columns}};
    test.sequence_length = sequence_length;
    test.documents = documents;
    return test;
}

// With a second product, by a weight of `rank` columns.
OpCase with_second(OpCase test, int64_t rank) {
    test.spec.in.push_back({.cols = rank});
    test.spec.weights.push_back({test.spec.weights[0][0], rank});
    return test;
}

std::vector<OpCase> cases() {
    return {make_case("plain", 16, 50, 16, false),
            make_case("odd vocabulary, documents", 24, 131, 19, true),
            make_case("two tiles", 8, 67, 550, false),
            make_case("few tokens", 72, 45, 2, false),
            make_case("scaled", 24, 131, 19, false, {.scale = 0.375}),
            make_case("softcap, wide", 8, 1037, 5, false, {.softcap = 1.5}),
            make_case("scaled, softcap, documents", 16, 50, 19, true, {.scale = 2.5, .softcap = 4}),
            with_second(make_case("two products", 24, 131, 19, true), 4),
            with_second(make_case("two products, two tiles", 8, 67, 550, false), 3),
            with_second(make_case("two products, softcap", 16, 50, 16, false, {.scale = 0.5, .softcap = 3}), 2)};
}

constexpr OpKernels kCpu{
    .forward = cross_entropy_forward_cpu, .vjp = cross_entropy_backward_cpu, .jvp = cross_entropy_tangent_cpu};

}  // namespace cross_entropy_op

int64_t cross_entropy_tile(int64_t vocab) {
    return std::clamp(round_down(cross_entropy_op::kTileLogits / vocab, cross_entropy_op::kTileStep),
                      cross_entropy_op::kTileStep, cross_entropy_op::kTileMax);
}

int64_t cross_entropy_stride(int64_t vocab) {
    const int64_t stride = round_up<int64_t>(vocab, 32);
    return stride % 1024 == 0 ? stride + 32 : stride;
}

int64_t cross_entropy_tile_cuda(int64_t vocab) {
    constexpr int64_t kLogits = int64_t{1} << 28;  // 1 GiB in f32
    return std::clamp<int64_t>(round_down(kLogits / vocab, cross_entropy_op::kTileStep), cross_entropy_op::kTileStep,
                               8192);
}

// Rows of whole 256 bytes, as f32 and as bf16.
int64_t cross_entropy_stride_cuda(int64_t vocab) {
    return round_up<int64_t>(vocab, 64);
}

LogitShape logit_shape(const OpSpec& spec) {
    const auto& attrs = spec.get<CrossEntropyAttrs>();
    return {static_cast<float>(attrs.scale), static_cast<float>(attrs.softcap)};
}

bool changes_logits(LogitShape shape) {
    return shape.scale != 1 || shape.softcap > 0;
}

int64_t head_workspace_bytes(const OpSpec& spec, const OpSize& size) {
    const int64_t tile = std::min(cross_entropy_tile_cuda(spec.weights[0][0]), size.tokens());
    int64_t largest = 0;
    for (const Shape& weight : spec.weights) largest = std::max(largest, weight.numel());
    return gemm_workspace_bytes(static_cast<double>(tile) * static_cast<double>(largest));
}

constinit const OpRecord kCrossEntropy{
    .name = "cross_entropy",
    .infer = cross_entropy_op::infer,
    .work = OpWork::product,
    .sample = cross_entropy_op::sample,
    .describe = cross_entropy_op::describe,
    .same_attributes = equal_attributes<CrossEntropyAttrs>,
    .reads = {.in = true, .out = false},
    .backward_computes_out = true,
    .cases = cross_entropy_op::cases,
    .cells = cells_of({.cost = cross_entropy_op::cost<cross_entropy_tile>,
                       .scratch_bytes = cross_entropy_op::scratch_bytes,
                       .kernels = &cross_entropy_op::kCpu},
                      {.cost = cross_entropy_op::cost<cross_entropy_tile_cuda>,
                       .scratch_bytes = cross_entropy_op::scratch_bytes_cuda,
                       .kernels = &kCrossEntropyCuda}),
};

}  // namespace windlass
