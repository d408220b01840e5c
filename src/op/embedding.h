// embedding.h: the CPU kernels of embedding; what they compute: ops.h.
#pragma once

namespace windlass {

class Stream;
struct OpCall;

void embedding_forward_cpu(const OpCall& call, Stream& stream);
void embedding_backward_cpu(const OpCall& call, Stream& stream);
void embedding_tangent_cpu(const OpCall& call, Stream& stream);

}  // namespace windlass
