#include "op/add.h"
#include "op/loops_cpu.h"

namespace windlass {
namespace {

constexpr IsaKernel<const PointwiseLoops> kLoops{&baseline::kAddLoops, &avx2::kAddLoops, &avx512::kAddLoops};

}  // namespace

void add_forward_cpu(const OpCall& call, Stream& stream) {
    pointwise_forward(kLoops.pick()->forward, call, stream);
}

void add_backward_cpu(const OpCall& call, Stream& stream) {
    pointwise_backward(kLoops.pick()->backward, {}, call, stream);
}

void add_tangent_cpu(const OpCall& call, Stream& stream) {
    pointwise_tangent(kLoops.pick()->tangent, {}, call, stream);
}

}  // namespace windlass
