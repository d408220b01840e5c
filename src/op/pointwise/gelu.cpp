#include "op/cuda_kernels.h"
#include "op/pointwise/cells_cpu.h"
#include "op/sample.h"

namespace windlass {
namespace gelu_op {

void infer(OpSpec& spec) {
    WINDLASS_CHECK(spec.in.size() == 1 && spec.weights.empty(), "gelu needs one input and no weights");
    spec.get<GeluAttrs>();
    spec.out = {spec.in[0]};
}

// An exponential and a division count ten.
Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return streaming_cost(spec, size, mode, {26, 34, 34}, GeluTraits::kReads);
}

std::string describe(const OpSpec& spec) {
    return spec.get<GeluAttrs>().kind == GeluAttrs::Kind::exact ? "exact" : "tanh";
}

std::vector<OpCase> cases() {
    const auto of = [](std::string name, GeluAttrs::Kind kind, int64_t cols, double scale) {
        return OpCase{
            .name = std::move(name), .spec = {.attrs = GeluAttrs{kind}, .in = {{cols}}}, .weight_scale = scale};
    };
    return {of("exact", GeluAttrs::Kind::exact, 1037, 2.0), of("exact_wide", GeluAttrs::Kind::exact, 64, 8.0),
            of("tanh", GeluAttrs::Kind::tanh, 1037, 2.0), of("tanh_wide", GeluAttrs::Kind::tanh, 64, 8.0)};
}

}  // namespace gelu_op

constinit const OpRecord kGelu = {
    .name = "gelu",
    .infer = gelu_op::infer,
    .sample = sample_rows,
    .describe = gelu_op::describe,
    .same_attributes = equal_attributes<GeluAttrs>,
    .reads = GeluTraits::kReads,
    .cases = gelu_op::cases,
    .cells = cells_of({.cost = gelu_op::cost, .kernels = &PointwiseCpu<GeluTraits>::kKernels},
                      {.cost = gelu_op::cost, .kernels = &kGeluCuda}),
};

}  // namespace windlass
