#include "op/magnitude_cuda.h"

#include "op/cells_cuda.h"
#include "op/cuda_kernels.h"
#include "op/magnitude.h"
#include "op/ops.h"

namespace windlass {
namespace magnitude_cells {

// With the norms on their way.
MagnitudeArgs args_of(const PointwiseArgs& values, const OpCall& call, Stream& stream) {
    const auto& attrs = call.spec->get<MagnitudeAttrs>();
    const auto weight = [&](size_t place) {
        return place < call.weights.size() ? cuda_weight(call.weights[place], *call.size) : CudaWeight{};
    };
    MagnitudeArgs args{values};
    args.m = weight(kMagnitudeM);
    args.w = weight(kMagnitudeW);
    args.a = weight(kMagnitudeA);
    args.b = weight(kMagnitudeB);
    args.bias = weight(kMagnitudeBias);
    args.in_out = attrs.in_out;
    args.inputs = call.spec->weights[kMagnitudeA][1];
    args.rank = call.spec->weights[kMagnitudeA][0];
    args.s = static_cast<float>(attrs.scale);
    args.c = scratch_floats(call);
    args.inverse = args.c + magnitude_norm_bytes(args.cols) / (2 * static_cast<int64_t>(sizeof(float)));
    launch_magnitude_norms(computes_bf16(call), args, cuda_handle(stream));
    return args;
}

void forward(const OpCall& call, Stream& stream) {
    const MagnitudeArgs args = args_of(pointwise_forward_args(call), call, stream);
    launch_magnitude_forward(computes_bf16(call), args, cuda_handle(stream));
}

void backward(const OpCall& call, Stream& stream) {
    MagnitudeArgs args = args_of(pointwise_backward_args({}, call), call, stream);
    if (args.out[0].data != nullptr) launch_magnitude_slopes(computes_bf16(call), args, cuda_handle(stream));
    if (call.sinks.empty()) return;
    args.x = cuda_value(call.in[0]);
    args.sum = cuda_sum(call.sinks[kMagnitudeM],
                        scratch_floats(call) + magnitude_norm_bytes(args.cols) / static_cast<int64_t>(sizeof(float)));
    launch_magnitude_gradient(computes_bf16(call), args, cuda_handle(stream));
}

void tangent(const OpCall& call, Stream& stream) {
    const bool moves = !call.weights[kMagnitudeM].direction.empty();
    const std::span<const Tensor> reads = moves ? call.in : std::span<const Tensor>{};
    MagnitudeArgs args = args_of(pointwise_tangent_args(reads, call), call, stream);
    if (moves) args.tangent_m = cuda_direction(call.weights[kMagnitudeM]);
    (moves ? launch_magnitude_tangent : launch_magnitude_slopes)(computes_bf16(call), args, cuda_handle(stream));
}

}  // namespace magnitude_cells

constinit const OpKernels kMagnitudeCuda{
    .forward = magnitude_cells::forward, .vjp = magnitude_cells::backward, .jvp = magnitude_cells::tangent};

}  // namespace windlass
