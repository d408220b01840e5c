#include "op/loops_cpu.h"
#include "op/swiglu.h"
#include "op/swiglu_halves.h"

namespace windlass {
namespace {

constexpr IsaKernel<const PointwiseLoops> kSwigluLoops{&baseline::kSwigluLoops, &avx2::kSwigluLoops,
                                                       &avx512::kSwigluLoops};
constexpr IsaKernel<const PointwiseLoops> kGegluLoops{&baseline::kGegluLoops, &avx2::kGegluLoops, &avx512::kGegluLoops};

const PointwiseLoops& swiglu_loops(const OpCall& call) {
    return call.spec->get<SwigluAttrs>().kind == SwigluAttrs::Kind::silu ? *kSwigluLoops.pick() : *kGegluLoops.pick();
}

}  // namespace

void swiglu_forward_cpu(const OpCall& call, Stream& stream) {
    const SwigluHalves halves(call);
    pointwise_forward(swiglu_loops(call).forward, halves.call(), stream);
}

void swiglu_backward_cpu(const OpCall& call, Stream& stream) {
    const SwigluHalves halves(call);
    pointwise_backward(swiglu_loops(call).backward, halves.call().in, halves.call(), stream);
}

void swiglu_tangent_cpu(const OpCall& call, Stream& stream) {
    const SwigluHalves halves(call);
    pointwise_tangent(swiglu_loops(call).tangent, halves.call().in, halves.call(), stream);
}

}  // namespace windlass
