// scale.h: the CPU kernels of scale and their loops; what they compute: ops.h.
#pragma once

#include "op/loops.h"

namespace windlass {

class Stream;
struct OpCall;

float scale_factor(const OpCall& call);
void scale_forward_cpu(const OpCall& call, Stream& stream);
void scale_backward_cpu(const OpCall& call, Stream& stream);
void scale_tangent_cpu(const OpCall& call, Stream& stream);

// Numbers of a row that backward sees at a time: rows of some ten thousand columns would leave the first-level cache.
inline constexpr int64_t kScaleBlock = 512;

struct ScaleLoops {
    // to[i] = factor * from[i]; `to` may be `from`.
    void (*by_factor)(float factor, const float* from, float* to, int64_t n);
    PointwiseLoop* product;          // in: a, b; out: a * b
    PointwiseLoop* sum_of_products;  // in: a, b, c, d; out: a * b + c * d
    // grad_w[i] += (factor * grad_y[i]) * x[i]
    void (*add_weight_gradient)(float factor, const float* grad_y, const float* x, float* grad_w, int64_t n);
};

namespace baseline {
extern const ScaleLoops kScaleLoops;
}
namespace avx2 {
extern const ScaleLoops kScaleLoops;
}
namespace avx512 {
extern const ScaleLoops kScaleLoops;
}

}  // namespace windlass
