#include "op/loops_cpu.h"
#include "op/relu.h"

namespace windlass {
namespace {

constexpr IsaKernel<const PointwiseLoops> kReluLoops{&baseline::kReluLoops, &avx2::kReluLoops, &avx512::kReluLoops};

}  // namespace

void relu_forward_cpu(const OpCall& call, Stream& stream) {
    pointwise_forward(kReluLoops.pick()->forward, call, stream);
}

void relu_backward_cpu(const OpCall& call, Stream& stream) {
    pointwise_backward(kReluLoops.pick()->backward, call.out, call, stream);
}

void relu_tangent_cpu(const OpCall& call, Stream& stream) {
    pointwise_tangent(kReluLoops.pick()->tangent, call.in, call, stream);
}

}  // namespace windlass
