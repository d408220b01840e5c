// gelu.h: the CPU kernels of gelu and their loops; what they compute: ops.h.
#pragma once

#include "op/loops.h"

namespace windlass {

class Stream;
struct OpCall;

void gelu_forward_cpu(const OpCall& call, Stream& stream);
void gelu_backward_cpu(const OpCall& call, Stream& stream);
void gelu_tangent_cpu(const OpCall& call, Stream& stream);

namespace baseline {
extern const PointwiseLoops kGeluExactLoops;
}
namespace avx2 {
extern const PointwiseLoops kGeluExactLoops;
}
namespace avx512 {
extern const PointwiseLoops kGeluExactLoops;
}

namespace baseline {
extern const PointwiseLoops kGeluTanhLoops;
}
namespace avx2 {
extern const PointwiseLoops kGeluTanhLoops;
}
namespace avx512 {
extern const PointwiseLoops kGeluTanhLoops;
}

}  // namespace windlass
