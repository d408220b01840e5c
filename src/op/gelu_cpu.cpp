#include "op/gelu.h"
#include "op/loops_cpu.h"
#include "op/ops.h"

namespace windlass {
namespace {

constexpr IsaKernel<const PointwiseLoops> kExact{&baseline::kGeluExactLoops, &avx2::kGeluExactLoops,
                                                 &avx512::kGeluExactLoops};
constexpr IsaKernel<const PointwiseLoops> kTanh{&baseline::kGeluTanhLoops, &avx2::kGeluTanhLoops,
                                                &avx512::kGeluTanhLoops};

const PointwiseLoops& loops_of(const OpCall& call) {
    return call.spec->get<GeluAttrs>().kind == GeluAttrs::Kind::exact ? *kExact.pick() : *kTanh.pick();
}

}  // namespace

void gelu_forward_cpu(const OpCall& call, Stream& stream) {
    pointwise_forward(loops_of(call).forward, call, stream);
}

void gelu_backward_cpu(const OpCall& call, Stream& stream) {
    pointwise_backward(loops_of(call).backward, call.in, call, stream);
}

void gelu_tangent_cpu(const OpCall& call, Stream& stream) {
    pointwise_tangent(loops_of(call).tangent, call.in, call, stream);
}

}  // namespace windlass
