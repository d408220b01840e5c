// rope.h: the CPU kernels of rope and their loops; what they compute: ops.h.
#pragma once

#include <cstdint>

namespace windlass {

class Stream;
struct OpCall;

void rope_forward_cpu(const OpCall& call, Stream& stream);
void rope_backward_cpu(const OpCall& call, Stream& stream);
void rope_tangent_cpu(const OpCall& call, Stream& stream);

struct RopeLoops {
    // cos and sin of position * frequency[i] for i in [0, n). The product is rounded to f32, as the models were
    // trained with; its cosine and sine are accurate.
    void (*angles)(int32_t position, const float* frequencies, float* cos, float* sin, int64_t n);
    // y = x rotated: (a, b) -> (a cos - b sin, b cos + a sin) for pairs (i, i + n) of each head; x, y [heads * 2n]
    void (*rotate)(const float* x, const float* cos, const float* sin, float* y, int64_t heads, int64_t n);
};

namespace baseline {
extern const RopeLoops kRopeLoops;
}
namespace avx2 {
extern const RopeLoops kRopeLoops;
}
namespace avx512 {
extern const RopeLoops kRopeLoops;
}

}  // namespace windlass
