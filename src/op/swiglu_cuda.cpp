#include "op/swiglu_cuda.h"

#include "op/cuda_kernels.h"
#include "op/swiglu_halves.h"

namespace windlass {
namespace swiglu_cells {

bool is_silu(const OpCall& call) {
    return call.spec->get<SwigluAttrs>().kind == SwigluAttrs::Kind::silu;
}

void forward(const OpCall& call, Stream& stream) {
    const SwigluHalves halves(call);
    pointwise_forward_cuda(is_silu(call) ? launch_swiglu_forward : launch_geglu_forward, halves.call(), stream);
}
void backward(const OpCall& call, Stream& stream) {
    const SwigluHalves halves(call);
    pointwise_backward_cuda(is_silu(call) ? launch_swiglu_backward : launch_geglu_backward, halves.call().in,
                            halves.call(), stream);
}
void tangent(const OpCall& call, Stream& stream) {
    const SwigluHalves halves(call);
    pointwise_tangent_cuda(is_silu(call) ? launch_swiglu_tangent : launch_geglu_tangent, halves.call().in,
                           halves.call(), stream);
}

}  // namespace swiglu_cells

constinit const OpKernels kSwigluCuda{
    .forward = swiglu_cells::forward, .vjp = swiglu_cells::backward, .jvp = swiglu_cells::tangent};

}  // namespace windlass
