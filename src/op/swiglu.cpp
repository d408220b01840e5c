#include "op/swiglu.h"

#include "op/cuda_kernels.h"
#include "op/loops_cpu.h"
#include "op/ops.h"
#include "op/sample.h"

namespace windlass {
namespace {

constexpr BackwardReads kReads{.in = true};

void infer(OpSpec& spec) {
    WINDLASS_CHECK(spec.in.size() == 2 && spec.weights.empty() && spec.in[0] == spec.in[1],
                   "swiglu wants a gate and an up of one shape");
    spec.out = {spec.in[0]};
}

// An exponential and a division count ten.
Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return streaming_cost(spec, size, mode, {22, 28, 29}, kReads);
}

std::vector<OpCase> cases() {
    const auto of = [](std::string name, int64_t cols) {
        return OpCase{.name = std::move(name), .spec = {.in = {{cols}, {cols}}}, .weight_scale = 2.0};
    };
    return {of("one", 1), of("narrow", 48), of("ragged", 1037)};
}

constexpr OpKernels kCpu{.forward = swiglu_forward_cpu, .vjp = swiglu_backward_cpu, .jvp = swiglu_tangent_cpu};

}  // namespace

constinit const OpRecord kSwiglu = {
    .name = "swiglu",
    .infer = infer,
    .sample = sample_rows,
    .reads = kReads,
    .cases = cases,
    .cells = cells_of({.cost = cost, .kernels = &kCpu}, {.cost = cost, .kernels = &kSwigluCuda}),
};

}  // namespace windlass
