// preference.h: the CPU kernels of preference; what they compute: ops.h.
#pragma once

namespace windlass {

class Stream;
struct OpCall;

void preference_forward_cpu(const OpCall& call, Stream& stream);
void preference_backward_cpu(const OpCall& call, Stream& stream);
void preference_tangent_cpu(const OpCall& call, Stream& stream);

}  // namespace windlass
