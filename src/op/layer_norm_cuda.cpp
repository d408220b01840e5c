#include "op/layer_norm_cuda.h"

#include "op/cells_cuda.h"
#include "op/cuda_kernels.h"
#include "op/ops.h"

namespace windlass {
namespace layer_norm_cells {

LayerNormArgs args_of(const OpCall& call) {
    return {.x = cuda_value(call.in[0]),
            .w = cuda_weight(call.weights[0], *call.size),
            .b = cuda_weight(call.weights[1], *call.size),
            .moments = call.saved[0].as<float>(),
            .moments_stride = call.saved[0].row_stride,
            .rows = call.in[0].rows(),
            .cols = call.in[0].cols(),
            .eps = static_cast<float>(call.spec->get<LayerNormAttrs>().eps)};
}

void forward(const OpCall& call, Stream& stream) {
    LayerNormArgs args = args_of(call);
    args.y = cuda_value(call.out[0]);
    launch_layer_norm_forward(computes_bf16(call), args, cuda_handle(stream));
}

void backward(const OpCall& call, Stream& stream) {
    LayerNormArgs args = args_of(call);
    args.y = cuda_value(call.grad_out[0]);
    args.grad_x = cuda_gradient(call, 0);
    args.sum_w = cuda_sum(call.sinks[0], scratch_floats(call));
    args.sum_b = cuda_sum(call.sinks[1], scratch_floats(call) + cuda_sum_floats(args.rows, args.cols));
    launch_layer_norm_backward(computes_bf16(call), args, cuda_handle(stream));
}

void tangent(const OpCall& call, Stream& stream) {
    LayerNormArgs args = args_of(call);
    args.y = cuda_value(call.tangent_out[0]);
    args.tangent_x = cuda_value(call.tangent_in[0]);
    args.tangent_w = cuda_direction(call.weights[0]);
    args.tangent_b = cuda_direction(call.weights[1]);
    args.k = call.size->k;
    launch_layer_norm_tangent(computes_bf16(call), args, cuda_handle(stream));
}

}  // namespace layer_norm_cells

constinit const OpKernels kLayerNormCuda{
    .forward = layer_norm_cells::forward, .vjp = layer_norm_cells::backward, .jvp = layer_norm_cells::tangent};

}  // namespace windlass
