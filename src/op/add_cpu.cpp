#include "op/add.h"
#include "op/loops_cpu.h"

namespace windlass {
namespace {

constexpr IsaKernel<const PointwiseLoops> kAddLoops{&baseline::kAddLoops, &avx2::kAddLoops, &avx512::kAddLoops};

}  // namespace

void add_forward_cpu(const OpCall& call, Stream& stream) {
    pointwise_forward(kAddLoops.pick()->forward, call, stream);
}

void add_backward_cpu(const OpCall& call, Stream& stream) {
    pointwise_backward(kAddLoops.pick()->backward, {}, call, stream);
}

void add_tangent_cpu(const OpCall& call, Stream& stream) {
    pointwise_tangent(kAddLoops.pick()->tangent, {}, call, stream);
}

}  // namespace windlass
