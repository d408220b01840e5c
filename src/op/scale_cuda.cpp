#include "op/scale_cuda.h"

#include "op/cells_cuda.h"
#include "op/cuda_kernels.h"
#include "op/ops.h"
#include "op/scale.h"

namespace windlass {
namespace scale_cells {

ScaleArgs args_of(const PointwiseArgs& values, const OpCall& call) {
    ScaleArgs args{values};
    if (!call.weights.empty()) args.w = cuda_weight(call.weights[0], *call.size);
    args.factor = scale_factor(call);
    return args;
}

void forward(const OpCall& call, Stream& stream) {
    launch_scale(computes_bf16(call), args_of(pointwise_forward_args(call), call), cuda_handle(stream));
}

void backward(const OpCall& call, Stream& stream) {
    ScaleArgs args = args_of(pointwise_backward_args({}, call), call);
    if (args.out[0].data != nullptr) launch_scale(computes_bf16(call), args, cuda_handle(stream));
    if (call.sinks.empty()) return;
    args.x = cuda_value(call.in[0]);
    args.sum = cuda_sum(call.sinks[0], scratch_floats(call));
    launch_scale_weight_gradient(computes_bf16(call), args, cuda_handle(stream));
}

void tangent(const OpCall& call, Stream& stream) {
    const bool moves = !call.weights.empty() && !call.weights[0].direction.empty();
    ScaleArgs args = args_of(pointwise_tangent_args(moves ? call.in : std::span<const Tensor>{}, call), call);
    if (moves) args.tangent_w = cuda_direction(call.weights[0]);
    (moves ? launch_scale_tangent : launch_scale)(computes_bf16(call), args, cuda_handle(stream));
}

}  // namespace scale_cells

constinit const OpKernels kScaleCuda{
    .forward = scale_cells::forward, .vjp = scale_cells::backward, .jvp = scale_cells::tangent};

}  // namespace windlass
