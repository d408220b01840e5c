#include "op/add.h"

#include "op/cuda_kernels.h"
#include "op/loops_cpu.h"
#include "op/ops.h"

namespace windlass {
namespace add_op {

void infer(OpSpec& spec) {
    WINDLASS_CHECK(spec.in.size() == 2 && spec.weights.empty() && spec.in[0] == spec.in[1],
                   "add needs two inputs of one shape");
    spec.out = {spec.in[0]};
}

Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return streaming_cost(spec, size, mode, {1, 0, 1}, {});
}

std::vector<OpCase> cases() {
    return {{.name = "narrow", .spec = {.in = {{48}, {48}}}}, {.name = "ragged", .spec = {.in = {{1037}, {1037}}}}};
}

constexpr OpKernels kCpu{.forward = add_forward_cpu, .vjp = add_backward_cpu, .jvp = add_tangent_cpu};

}  // namespace add_op

constinit const OpRecord kAdd = {
    .name = "add",
    .infer = add_op::infer,
    .passes_gradient = true,
    .cases = add_op::cases,
    .cells = cells_of({.cost = add_op::cost, .kernels = &add_op::kCpu}, {.cost = add_op::cost, .kernels = &kAddCuda}),
};

}  // namespace windlass
