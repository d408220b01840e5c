#include "op/cuda_kernels.h"
#include "op/pointwise/cells_cpu.h"
#include "op/sample.h"

namespace windlass {
namespace tanh_op {

void infer(OpSpec& spec) {
    WINDLASS_CHECK(spec.in.size() == 1 && spec.weights.empty(), "tanh needs one input and no weights");
    spec.out = {spec.in[0]};
}

// An exponential and a division count ten.
Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return streaming_cost(spec, size, mode, {24, 3, 27}, TanhTraits::kReads);
}

std::vector<OpCase> cases() {
    return {{.name = "narrow", .spec = {.in = {{48}}}},
            {.name = "ragged", .spec = {.in = {{1037}}}},
            {.name = "wide", .spec = {.in = {{64}}}, .weight_scale = 8.0}};
}

}  // namespace tanh_op

constinit const OpRecord kTanh = {
    .name = "tanh",
    .infer = tanh_op::infer,
    .sample = sample_rows,
    .reads = TanhTraits::kReads,
    .cases = tanh_op::cases,
    .cells = cells_of({.cost = tanh_op::cost, .kernels = &PointwiseCpu<TanhTraits>::kKernels},
                      {.cost = tanh_op::cost, .kernels = &kTanhCuda}),
};

}  // namespace windlass
