#include "op/relu_cuda.h"

#include "op/cuda_kernels.h"

namespace windlass {
namespace relu_cells {

void forward(const OpCall& call, Stream& stream) {
    pointwise_forward_cuda(launch_relu_forward, call, stream);
}
void backward(const OpCall& call, Stream& stream) {
    pointwise_backward_cuda(launch_relu_backward, call.out, call, stream);
}
void tangent(const OpCall& call, Stream& stream) {
    pointwise_tangent_cuda(launch_relu_tangent, call.in, call, stream);
}

}  // namespace relu_cells

constinit const OpKernels kReluCuda{
    .forward = relu_cells::forward, .vjp = relu_cells::backward, .jvp = relu_cells::tangent};

}  // namespace windlass
