#include "op/rms_norm.h"

#include "base/math.h"
#include "op/cuda_kernels.h"
#include "op/loops_cpu.h"
#include "op/ops.h"
#include "op/sample.h"
#include "op/sums_cuda.h"

namespace windlass {
namespace rms_norm_op {

constexpr BackwardReads kReads{.in = true};

int64_t group_size(const OpSpec& spec) {
    return div_exact(spec.in[0].cols, spec.get<RmsNormAttrs>().groups);
}

void infer(OpSpec& spec) {
    WINDLASS_CHECK(spec.in.size() == 1 && spec.weights.size() == 1 && spec.weights[0] == Shape({group_size(spec)}),
                   "rms_norm needs one input and a weight of a group's size");
    spec.out = {spec.in[0]};
    spec.saved = {{spec.get<RmsNormAttrs>().groups, ValueType::f32}};  // rstd
}

Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return streaming_cost(spec, size, mode, {4, 10, 11}, kReads);
}

// Rows of each worker, the weight, and what the direction adds: partial gradients or the weight's tangents.
int64_t scratch_bytes(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const int64_t cols = spec.in[0].cols, group = group_size(spec);
    const int64_t row = WorkerRows::bytes(size, cols);
    switch (mode) {
        case DiffMode::forward:
            return 2 * row + float_bytes(group);
        case DiffMode::vjp:
            return 3 * row + float_bytes(group) + VectorGradient::bytes(size.tokens(), group);
        case DiffMode::jvp:
            return 3 * row + float_bytes(group) + VectorTangents::bytes(size, group);
    }
    return 0;
}

// Sums of chunks of rows.
int64_t scratch_bytes_cuda(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    if (mode != DiffMode::vjp) return 0;
    return cuda_sum_floats(size.tokens() * spec.get<RmsNormAttrs>().groups, group_size(spec)) *
           static_cast<int64_t>(sizeof(float));
}

std::string describe(const OpSpec& spec) {
    const auto& attrs = spec.get<RmsNormAttrs>();
    std::string text = fmt::format("eps={}", attrs.eps);
    if (attrs.groups != 1) text += fmt::format(" groups={}", attrs.groups);
    return attrs.unit_offset ? text + " unit_offset" : text;
}

std::vector<OpCase> cases() {
    const auto of = [](std::string name, int64_t groups, int64_t size, double eps, bool unit_offset = false) {
        return OpCase{
            .name = std::move(name),
            .spec = {.attrs = RmsNormAttrs{eps, groups, unit_offset}, .in = {{groups * size}}, .weights = {{size}}}};
    };
    OpCase chunks = of("chunks", 1, 24, 1e-5);  // several partial gradients
    chunks.sequence_length = 83;
    return {of("row", 1, 96, 1e-6),
            of("ragged", 1, 1037, 1e-5),
            of("wide", 1, 2120, 1e-5),
            of("heads", 4, 24, 1e-6),
            std::move(chunks),
            of("unit offset", 1, 96, 1e-6, true),
            of("unit offset, heads", 3, 20, 1e-6, true)};
}

constexpr OpKernels kCpu{.forward = rms_norm_forward_cpu, .vjp = rms_norm_backward_cpu, .jvp = rms_norm_tangent_cpu};

}  // namespace rms_norm_op

constinit const OpRecord kRmsNorm = {
    .name = "rms_norm",
    .infer = rms_norm_op::infer,
    .sample = sample_rows,
    .describe = rms_norm_op::describe,
    .same_attributes = equal_attributes<RmsNormAttrs>,
    .reads = rms_norm_op::kReads,
    .cases = rms_norm_op::cases,
    .cells = cells_of(
        {.cost = rms_norm_op::cost, .scratch_bytes = rms_norm_op::scratch_bytes, .kernels = &rms_norm_op::kCpu},
        {.cost = rms_norm_op::cost, .scratch_bytes = rms_norm_op::scratch_bytes_cuda, .kernels = &kRmsNormCuda}),
};

}  // namespace windlass
