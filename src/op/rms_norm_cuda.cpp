#include "op/rms_norm_cuda.h"

#include "op/cells_cuda.h"
#include "op/cuda_kernels.h"
#include "op/ops.h"

namespace windlass {
namespace rms_norm_cells {

RmsNormArgs args_of(const OpCall& call) {
    const auto& attrs = call.spec->get<RmsNormAttrs>();
    return {.x = cuda_value(call.in[0]),
            .w = cuda_weight(call.weights[0], *call.size),
            .unit_offset = attrs.unit_offset,
            .rows = call.in[0].rows() * attrs.groups,
            .cols = call.weights[0].base.numel(),
            .groups = attrs.groups,
            .eps = static_cast<float>(attrs.eps)};
}

void forward(const OpCall& call, Stream& stream) {
    RmsNormArgs args = args_of(call);
    args.y = cuda_value(call.out[0]);
    args.rstd = call.saved[0].as<float>();
    launch_rms_norm_forward(computes_bf16(call), args, cuda_handle(stream));
}

void backward(const OpCall& call, Stream& stream) {
    RmsNormArgs args = args_of(call);
    args.y = cuda_value(call.grad_out[0]);
    args.rstd = call.saved[0].as<float>();
    args.grad_x = cuda_gradient(call, 0);
    args.sum = cuda_sum(call.sinks[0], scratch_floats(call));
    launch_rms_norm_backward(computes_bf16(call), args, cuda_handle(stream));
}

void tangent(const OpCall& call, Stream& stream) {
    RmsNormArgs args = args_of(call);
    args.y = cuda_value(call.tangent_out[0]);
    args.tangent_x = cuda_value(call.tangent_in[0]);
    args.tangent_w = cuda_direction(call.weights[0]);
    args.k = call.size->k;
    launch_rms_norm_tangent(computes_bf16(call), args, cuda_handle(stream));
}

}  // namespace rms_norm_cells

constinit const OpKernels kRmsNormCuda{
    .forward = rms_norm_cells::forward, .vjp = rms_norm_cells::backward, .jvp = rms_norm_cells::tangent};

}  // namespace windlass
