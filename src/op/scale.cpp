#include "op/scale.h"

#include "op/cuda_kernels.h"
#include "op/loops_cpu.h"
#include "op/ops.h"
#include "op/sample.h"
#include "op/sums_cuda.h"

namespace windlass {
namespace scale_op {

void infer(OpSpec& spec) {
    WINDLASS_CHECK(spec.in.size() == 1 && spec.weights.size() <= 1, "scale has {} inputs and {} weights",
                   spec.in.size(), spec.weights.size());
    WINDLASS_CHECK(spec.weights.empty() || spec.weights[0] == Shape({spec.in[0].cols}),
                   "scale of {} columns by a weight {}", spec.in[0].cols, spec.weights[0].to_string());
    spec.get<ScaleAttrs>();
    spec.out = {spec.in[0]};
}

// factor * w is a product a column, and counts nothing. The weight's gradient and its tangents read `in`.
Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    if (spec.weights.empty()) return streaming_cost(spec, size, mode, {1, 1, 1}, {});
    const bool is_trained = mode != DiffMode::vjp || size.trains_weights;
    Cost cost = streaming_cost(spec, size, mode, {1, is_trained ? 4.0 : 1.0, 3}, {.in = is_trained});
    const int64_t cols = spec.in[0].cols, weight_bytes = cols * dtype_bytes(size.compute);
    cost.bytes += weight_bytes;
    if (mode == DiffMode::vjp && is_trained) cost.bytes += 2 * 4 * cols;  // it is read and written in f32
    if (mode == DiffMode::jvp) cost.bytes += size.k * weight_bytes;
    return cost;
}

// factor * w, and what the direction adds: blocks of each worker and partial gradients, or the weight's tangents and
// factor * one of them.
int64_t scratch_bytes(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const int64_t cols = spec.in[0].cols, slopes = float_bytes(cols);
    if (spec.weights.empty() || mode == DiffMode::forward) return slopes;
    if (mode == DiffMode::jvp) return 2 * slopes + VectorTangents::bytes(size, cols);
    return slopes + 3 * WorkerRows::bytes(size, kScaleBlock) + VectorGradient::bytes(size.tokens(), cols);
}

// Sums of chunks of rows.
int64_t scratch_bytes_cuda(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    if (spec.weights.empty() || mode != DiffMode::vjp) return 0;
    return cuda_sum_floats(size.tokens(), spec.in[0].cols) * static_cast<int64_t>(sizeof(float));
}

std::string describe(const OpSpec& spec) {
    const auto& attrs = spec.get<ScaleAttrs>();
    return fmt::format("factor={}{}", attrs.factor, attrs.rounds_factor ? " rounded" : "");
}

std::vector<OpCase> cases() {
    const auto plain = [](std::string name, int64_t cols, double factor) {
        return OpCase{.name = std::move(name), .spec = {.attrs = ScaleAttrs{factor}, .in = {{cols}}}};
    };
    const auto weighted = [](std::string name, int64_t cols, double factor) {
        return OpCase{.name = std::move(name),
                      .spec = {.attrs = ScaleAttrs{factor}, .in = {{cols}}, .weights = {{cols}}}};
    };
    OpCase chunks = weighted("weight_chunks", 24, 0.3);  // several partial gradients
    chunks.sequence_length = 83;
    OpCase rounded = plain("rounded", 48, 55.4256);  // 55.5 in bf16
    rounded.spec.attrs = ScaleAttrs{.factor = 55.4256, .rounds_factor = true};
    return {plain("column", 1, 2),      plain("four", 4, 1.7),
            plain("ragged", 1037, 0.3), weighted("weight_column", 1, 1),
            weighted("weight", 96, 1),  weighted("weight_ragged", 1037, 1.7),
            std::move(chunks),          std::move(rounded)};
}

constexpr OpKernels kCpu{.forward = scale_forward_cpu, .vjp = scale_backward_cpu, .jvp = scale_tangent_cpu};

}  // namespace scale_op

float scale_factor(const OpCall& call) {
    const auto& attrs = call.spec->get<ScaleAttrs>();
    const auto factor = static_cast<float>(attrs.factor);
    return attrs.rounds_factor && call.size->compute == DType::bf16 ? to_float(to_bf16(factor)) : factor;
}

constinit const OpRecord kScale = {
    .name = "scale",
    .infer = scale_op::infer,
    .sample = sample_rows,
    .describe = scale_op::describe,
    .same_attributes = equal_attributes<ScaleAttrs>,
    .reads = {.in = true, .out = false, .in_for_weights = true},
    .cases = scale_op::cases,
    .cells = cells_of({.cost = scale_op::cost, .scratch_bytes = scale_op::scratch_bytes, .kernels = &scale_op::kCpu},
                      {.cost = scale_op::cost, .scratch_bytes = scale_op::scratch_bytes_cuda, .kernels = &kScaleCuda}),
};

}  // namespace windlass
