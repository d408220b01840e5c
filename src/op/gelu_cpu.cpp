#include "op/gelu.h"
#include "op/loops_cpu.h"
#include "op/ops.h"

namespace windlass {
namespace {

constexpr IsaKernel<const PointwiseLoops> kGeluExactLoops{&baseline::kGeluExactLoops, &avx2::kGeluExactLoops,
                                                          &avx512::kGeluExactLoops};
constexpr IsaKernel<const PointwiseLoops> kGeluTanhLoops{&baseline::kGeluTanhLoops, &avx2::kGeluTanhLoops,
                                                         &avx512::kGeluTanhLoops};

const PointwiseLoops& gelu_loops(const OpCall& call) {
    return call.spec->get<GeluAttrs>().kind == GeluAttrs::Kind::exact ? *kGeluExactLoops.pick()
                                                                      : *kGeluTanhLoops.pick();
}

}  // namespace

void gelu_forward_cpu(const OpCall& call, Stream& stream) {
    pointwise_forward(gelu_loops(call).forward, call, stream);
}

void gelu_backward_cpu(const OpCall& call, Stream& stream) {
    pointwise_backward(gelu_loops(call).backward, call.in, call, stream);
}

void gelu_tangent_cpu(const OpCall& call, Stream& stream) {
    pointwise_tangent(gelu_loops(call).tangent, call.in, call, stream);
}

}  // namespace windlass
