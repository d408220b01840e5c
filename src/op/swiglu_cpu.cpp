#include "op/loops_cpu.h"
#include "op/swiglu.h"
#include "op/swiglu_halves.h"

namespace windlass {
namespace {

constexpr IsaKernel<const PointwiseLoops> kSilu{&baseline::kSwigluLoops, &avx2::kSwigluLoops, &avx512::kSwigluLoops};
constexpr IsaKernel<const PointwiseLoops> kTanhGelu{&baseline::kGegluLoops, &avx2::kGegluLoops, &avx512::kGegluLoops};

const PointwiseLoops& loops_of(const OpCall& call) {
    return call.spec->get<SwigluAttrs>().kind == SwigluAttrs::Kind::silu ? *kSilu.pick() : *kTanhGelu.pick();
}

}  // namespace

void swiglu_forward_cpu(const OpCall& call, Stream& stream) {
    const SwigluHalves halves(call);
    pointwise_forward(loops_of(call).forward, halves.call(), stream);
}

void swiglu_backward_cpu(const OpCall& call, Stream& stream) {
    const SwigluHalves halves(call);
    pointwise_backward(loops_of(call).backward, halves.call().in, halves.call(), stream);
}

void swiglu_tangent_cpu(const OpCall& call, Stream& stream) {
    const SwigluHalves halves(call);
    pointwise_tangent(loops_of(call).tangent, halves.call().in, halves.call(), stream);
}

}  // namespace windlass
