#include "op/gelu_cuda.h"

#include "op/cuda_kernels.h"
#include "op/ops.h"

namespace windlass {
namespace gelu_cells {

bool is_exact(const OpCall& call) {
    return call.spec->get<GeluAttrs>().kind == GeluAttrs::Kind::exact;
}
PointwiseLaunch slope_of(const OpCall& call) {
    return is_exact(call) ? launch_gelu_exact_slope : launch_gelu_tanh_slope;
}

void forward(const OpCall& call, Stream& stream) {
    pointwise_forward_cuda(is_exact(call) ? launch_gelu_exact_forward : launch_gelu_tanh_forward, call, stream);
}
void backward(const OpCall& call, Stream& stream) {
    pointwise_backward_cuda(slope_of(call), call.in, call, stream);
}
void tangent(const OpCall& call, Stream& stream) {
    pointwise_tangent_cuda(slope_of(call), call.in, call, stream);
}

}  // namespace gelu_cells

constinit const OpKernels kGeluCuda{
    .forward = gelu_cells::forward, .vjp = gelu_cells::backward, .jvp = gelu_cells::tangent};

}  // namespace windlass
