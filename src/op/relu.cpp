#include "op/relu.h"

#include "op/cuda_kernels.h"
#include "op/loops_cpu.h"
#include "op/ops.h"
#include "op/sample.h"

namespace windlass {
namespace relu_op {

constexpr BackwardReads kReads{.out = true};

void infer(OpSpec& spec) {
    WINDLASS_CHECK(spec.in.size() == 1 && spec.weights.empty(), "relu needs one input and no weights");
    spec.out = {spec.in[0]};
}

Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return streaming_cost(spec, size, mode, {1, 1, 1}, kReads);
}

std::vector<OpCase> cases() {
    return {{.name = "narrow", .spec = {.in = {{48}}}}, {.name = "ragged", .spec = {.in = {{1037}}}}};
}

constexpr OpKernels kCpu{.forward = relu_forward_cpu, .vjp = relu_backward_cpu, .jvp = relu_tangent_cpu};

}  // namespace relu_op

constinit const OpRecord kRelu = {
    .name = "relu",
    .infer = relu_op::infer,
    .sample = sample_rows,
    .reads = relu_op::kReads,
    .cases = relu_op::cases,
    .cells =
        cells_of({.cost = relu_op::cost, .kernels = &relu_op::kCpu}, {.cost = relu_op::cost, .kernels = &kReluCuda}),
};

}  // namespace windlass
