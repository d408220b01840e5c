// add.h: the CPU kernels of add and their loops; what they compute: ops.h.
#pragma once

#include "op/loops.h"

namespace windlass {

class Stream;
struct OpCall;

void add_forward_cpu(const OpCall& call, Stream& stream);
void add_backward_cpu(const OpCall& call, Stream& stream);
void add_tangent_cpu(const OpCall& call, Stream& stream);

namespace baseline {
extern const PointwiseLoops kAddLoops;
}
namespace avx2 {
extern const PointwiseLoops kAddLoops;
}
namespace avx512 {
extern const PointwiseLoops kAddLoops;
}

}  // namespace windlass
