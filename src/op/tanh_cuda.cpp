#include "op/tanh_cuda.h"

#include "op/cuda_kernels.h"

namespace windlass {
namespace tanh_cells {

void forward(const OpCall& call, Stream& stream) {
    pointwise_forward_cuda(launch_tanh_forward, call, stream);
}
void backward(const OpCall& call, Stream& stream) {
    pointwise_backward_cuda(launch_tanh_backward, call.out, call, stream);
}
void tangent(const OpCall& call, Stream& stream) {
    pointwise_tangent_cuda(launch_tanh_tangent, call.in, call, stream);
}

}  // namespace tanh_cells

constinit const OpKernels kTanhCuda{
    .forward = tanh_cells::forward, .vjp = tanh_cells::backward, .jvp = tanh_cells::tangent};

}  // namespace windlass
