#include "op/layer_norm.h"

#include "op/cuda_kernels.h"
#include "op/loops_cpu.h"
#include "op/ops.h"
#include "op/sample.h"
#include "op/sums_cuda.h"

namespace windlass {
namespace layer_norm_op {

constexpr BackwardReads kReads{.in = true};

void infer(OpSpec& spec) {
    const Shape vector = {spec.in.empty() ? 0 : spec.in[0].cols};
    WINDLASS_CHECK(
        spec.in.size() == 1 && spec.weights.size() == 2 && spec.weights[0] == vector && spec.weights[1] == vector,
        "layer_norm needs one input, a weight and a bias");
    spec.get<LayerNormAttrs>();
    spec.out = {spec.in[0]};
    spec.saved = {{2, ValueType::f32}};  // mean, rstd
}

Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return streaming_cost(spec, size, mode, {8, 17, 21}, kReads);
}

// Rows of each worker, the weights, and what the direction adds: partial gradients or the weights' tangents.
int64_t scratch_bytes(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const int64_t cols = spec.in[0].cols;
    const int64_t row = WorkerRows::bytes(size, cols), weights = 2 * float_bytes(cols);
    switch (mode) {
        case DiffMode::forward:
            return 2 * row + weights;
        case DiffMode::vjp:
            return 3 * row + weights + 2 * VectorGradient::bytes(size.tokens(), cols);
        case DiffMode::jvp:
            return 3 * row + weights + 2 * VectorTangents::bytes(size, cols);
    }
    return 0;
}

// Sums of chunks of rows.
int64_t scratch_bytes_cuda(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    if (mode != DiffMode::vjp) return 0;
    return 2 * cuda_sum_floats(size.tokens(), spec.in[0].cols) * static_cast<int64_t>(sizeof(float));
}

std::string describe(const OpSpec& spec) {
    return fmt::format("eps={}", spec.get<LayerNormAttrs>().eps);
}

std::vector<OpCase> cases() {
    const auto of = [](std::string name, int64_t cols, double eps) {
        return OpCase{.name = std::move(name),
                      .spec = {.attrs = LayerNormAttrs{eps}, .in = {{cols}}, .weights = {{cols}, {cols}}}};
    };
    OpCase chunks = of("chunks", 24, 1e-5);  // several partial gradients
    chunks.sequence_length = 83;
    return {of("row", 96, 1e-5), of("ragged", 1037, 1e-6), std::move(chunks)};
}

constexpr OpKernels kCpu{
    .forward = layer_norm_forward_cpu, .vjp = layer_norm_backward_cpu, .jvp = layer_norm_tangent_cpu};

}  // namespace layer_norm_op

constinit const OpRecord kLayerNorm = {
    .name = "layer_norm",
    .infer = layer_norm_op::infer,
    .sample = sample_rows,
    .describe = layer_norm_op::describe,
    .same_attributes = equal_attributes<LayerNormAttrs>,
    .reads = layer_norm_op::kReads,
    .cases = layer_norm_op::cases,
    .cells = cells_of(
        {.cost = layer_norm_op::cost, .scratch_bytes = layer_norm_op::scratch_bytes, .kernels = &layer_norm_op::kCpu},
        {.cost = layer_norm_op::cost, .scratch_bytes = layer_norm_op::scratch_bytes_cuda, .kernels = &kLayerNormCuda}),
};

}  // namespace windlass
