// tanh.h: the CPU kernels of tanh and their loops; what they compute: ops.h.
#pragma once

#include "op/loops.h"

namespace windlass {

class Stream;
struct OpCall;

void tanh_forward_cpu(const OpCall& call, Stream& stream);
void tanh_backward_cpu(const OpCall& call, Stream& stream);
void tanh_tangent_cpu(const OpCall& call, Stream& stream);

namespace baseline {
extern const PointwiseLoops kTanhLoops;
}
namespace avx2 {
extern const PointwiseLoops kTanhLoops;
}
namespace avx512 {
extern const PointwiseLoops kTanhLoops;
}

}  // namespace windlass
