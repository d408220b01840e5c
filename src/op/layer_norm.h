// layer_norm.h: the CPU kernels of layer_norm and their loops; what they compute: ops.h.
#pragma once

#include <cstdint>

namespace windlass {

class Stream;
struct OpCall;

void layer_norm_forward_cpu(const OpCall& call, Stream& stream);
void layer_norm_backward_cpu(const OpCall& call, Stream& stream);
void layer_norm_tangent_cpu(const OpCall& call, Stream& stream);

// One row: x, y, w, b and their gradients and tangents [size].
struct LayerNormRow {
    int64_t size = 0;
    float eps = 0;
    const float* x = nullptr;
    const float* w = nullptr;
    const float* b = nullptr;
};
struct LayerNormMoments {
    float mean = 0;
    float rstd = 0;
};
struct LayerNormLoops {
    LayerNormMoments (*forward)(const LayerNormRow& row, float* y);
    // grad_w and grad_b are added to; null: not wanted.
    void (*backward)(const LayerNormRow& row, LayerNormMoments moments, const float* grad_y, float* grad_x,
                     float* grad_w, float* grad_b);
    // tangent_w and tangent_b may be null: zero.
    void (*tangent)(const LayerNormRow& row, const float* tangent_x, const float* tangent_w, const float* tangent_b,
                    float* tangent_y);
};

namespace baseline {
extern const LayerNormLoops kLayerNormLoops;
}
namespace avx2 {
extern const LayerNormLoops kLayerNormLoops;
}
namespace avx512 {
extern const LayerNormLoops kLayerNormLoops;
}

}  // namespace windlass
