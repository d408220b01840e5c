#include "op/add_cuda.h"

#include "op/cuda_kernels.h"

namespace windlass {
namespace add_cells {

void forward(const OpCall& call, Stream& stream) {
    pointwise_forward_cuda(launch_add_forward, call, stream);
}
void backward(const OpCall& call, Stream& stream) {
    pointwise_backward_cuda(launch_add_backward, {}, call, stream);
}
void tangent(const OpCall& call, Stream& stream) {
    pointwise_tangent_cuda(launch_add_tangent, {}, call, stream);
}

}  // namespace add_cells

constinit const OpKernels kAddCuda{
    .forward = add_cells::forward, .vjp = add_cells::backward, .jvp = add_cells::tangent};

}  // namespace windlass
