#include "op/tanh_cuda.h"

#include "op/cuda_kernels.h"

namespace windlass {
namespace {

void forward(const OpCall& call, Stream& stream) {
    pointwise_forward_cuda(launch_tanh_forward, call, stream);
}
void backward(const OpCall& call, Stream& stream) {
    pointwise_backward_cuda(launch_tanh_backward, call.out, call, stream);
}
void tangent(const OpCall& call, Stream& stream) {
    pointwise_tangent_cuda(launch_tanh_tangent, call.in, call, stream);
}

}  // namespace

constinit const OpKernels kTanhCuda{.forward = forward, .vjp = backward, .jvp = tangent};

}  // namespace windlass
