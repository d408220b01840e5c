// swiglu.h: the CPU kernels of swiglu and their loops; what they compute: ops.h.
#pragma once

#include "op/loops.h"

namespace windlass {

class Stream;
struct OpCall;

void swiglu_forward_cpu(const OpCall& call, Stream& stream);
void swiglu_backward_cpu(const OpCall& call, Stream& stream);
void swiglu_tangent_cpu(const OpCall& call, Stream& stream);

namespace baseline {
extern const PointwiseLoops kSwigluLoops;
extern const PointwiseLoops kGegluLoops;
}  // namespace baseline
namespace avx2 {
extern const PointwiseLoops kSwigluLoops;
extern const PointwiseLoops kGegluLoops;
}  // namespace avx2
namespace avx512 {
extern const PointwiseLoops kSwigluLoops;
extern const PointwiseLoops kGegluLoops;
}  // namespace avx512

}  // namespace windlass
