#include "op/cuda_kernels.h"
#include "op/pointwise/cells_cpu.h"
#include "op/sample.h"

namespace windlass {
namespace relu_op {

void infer(OpSpec& spec) {
    WINDLASS_CHECK(spec.in.size() == 1 && spec.weights.empty(), "relu needs one input and no weights");
    spec.out = {spec.in[0]};
}

Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return streaming_cost(spec, size, mode, {1, 1, 1}, ReluTraits::kReads);
}

std::vector<OpCase> cases() {
    return {{.name = "narrow", .spec = {.in = {{48}}}}, {.name = "ragged", .spec = {.in = {{1037}}}}};
}

}  // namespace relu_op

constinit const OpRecord kRelu = {
    .name = "relu",
    .infer = relu_op::infer,
    .sample = sample_rows,
    .reads = ReluTraits::kReads,
    .cases = relu_op::cases,
    .cells = cells_of({.cost = relu_op::cost, .kernels = &PointwiseCpu<ReluTraits>::kKernels},
                      {.cost = relu_op::cost, .kernels = &kReluCuda}),
};

}  // namespace windlass
