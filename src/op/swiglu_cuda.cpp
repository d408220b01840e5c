#include "op/swiglu_cuda.h"

#include "op/cuda_kernels.h"

namespace windlass {
namespace {

void forward(const OpCall& call, Stream& stream) {
    pointwise_forward_cuda(launch_swiglu_forward, call, stream);
}
void backward(const OpCall& call, Stream& stream) {
    pointwise_backward_cuda(launch_swiglu_backward, call.in, call, stream);
}
void tangent(const OpCall& call, Stream& stream) {
    pointwise_tangent_cuda(launch_swiglu_tangent, call.in, call, stream);
}

}  // namespace

constinit const OpKernels kSwigluCuda{.forward = forward, .vjp = backward, .jvp = tangent};

}  // namespace windlass
