#include "op/loops_cpu.h"
#include "op/tanh.h"

namespace windlass {
namespace {

constexpr IsaKernel<const PointwiseLoops> kTanhLoops{&baseline::kTanhLoops, &avx2::kTanhLoops, &avx512::kTanhLoops};

}  // namespace

void tanh_forward_cpu(const OpCall& call, Stream& stream) {
    pointwise_forward(kTanhLoops.pick()->forward, call, stream);
}

void tanh_backward_cpu(const OpCall& call, Stream& stream) {
    pointwise_backward(kTanhLoops.pick()->backward, call.out, call, stream);
}

void tanh_tangent_cpu(const OpCall& call, Stream& stream) {
    pointwise_tangent(kTanhLoops.pick()->tangent, call.in, call, stream);
}

}  // namespace windlass
