#include "op/tanh.h"

#include "op/cuda_kernels.h"
#include "op/loops_cpu.h"
#include "op/ops.h"
#include "op/sample.h"

namespace windlass {
namespace tanh_op {

constexpr BackwardReads kReads{.out = true};

void infer(OpSpec& spec) {
    WINDLASS_CHECK(spec.in.size() == 1 && spec.weights.empty(), "tanh needs one input and no weights");
    spec.out = {spec.in[0]};
}

// An exponential and a division count ten.
Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return streaming_cost(spec, size, mode, {24, 3, 27}, kReads);
}

std::vector<OpCase> cases() {
    return {{.name = "narrow", .spec = {.in = {{48}}}},
            {.name = "ragged", .spec = {.in = {{1037}}}},
            {.name = "wide", .spec = {.in = {{64}}}, .weight_scale = 8.0}};
}

constexpr OpKernels kCpu{.forward = tanh_forward_cpu, .vjp = tanh_backward_cpu, .jvp = tanh_tangent_cpu};

}  // namespace tanh_op

constinit const OpRecord kTanh = {
    .name = "tanh",
    .infer = tanh_op::infer,
    .sample = sample_rows,
    .reads = tanh_op::kReads,
    .cases = tanh_op::cases,
    .cells =
        cells_of({.cost = tanh_op::cost, .kernels = &tanh_op::kCpu}, {.cost = tanh_op::cost, .kernels = &kTanhCuda}),
};

}  // namespace windlass
