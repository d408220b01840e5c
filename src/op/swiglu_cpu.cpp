#include "op/loops_cpu.h"
#include "op/swiglu.h"

namespace windlass {
namespace {

constexpr IsaKernel<const PointwiseLoops> kLoops{&baseline::kSwigluLoops, &avx2::kSwigluLoops, &avx512::kSwigluLoops};

}  // namespace

void swiglu_forward_cpu(const OpCall& call, Stream& stream) {
    pointwise_forward(kLoops.pick()->forward, call, stream);
}

void swiglu_backward_cpu(const OpCall& call, Stream& stream) {
    pointwise_backward(kLoops.pick()->backward, call.in, call, stream);
}

void swiglu_tangent_cpu(const OpCall& call, Stream& stream) {
    pointwise_tangent(kLoops.pick()->tangent, call.in, call, stream);
}

}  // namespace windlass
