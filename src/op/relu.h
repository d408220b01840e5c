// relu.h: the CPU kernels of relu and their loops; what they compute: ops.h.
#pragma once

#include "op/loops.h"

namespace windlass {

class Stream;
struct OpCall;

void relu_forward_cpu(const OpCall& call, Stream& stream);
void relu_backward_cpu(const OpCall& call, Stream& stream);
void relu_tangent_cpu(const OpCall& call, Stream& stream);

namespace baseline {
extern const PointwiseLoops kReluLoops;
}
namespace avx2 {
extern const PointwiseLoops kReluLoops;
}
namespace avx512 {
extern const PointwiseLoops kReluLoops;
}

}  // namespace windlass
