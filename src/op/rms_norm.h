// rms_norm.h: the CPU kernels of rms_norm and their loops; what they compute: ops.h.
#pragma once

#include <cstdint>

namespace windlass {

class Stream;
struct OpCall;

void rms_norm_forward_cpu(const OpCall& call, Stream& stream);
void rms_norm_backward_cpu(const OpCall& call, Stream& stream);
void rms_norm_tangent_cpu(const OpCall& call, Stream& stream);

// One row: x, y [groups * size]; w and its gradient [size]; rstd [groups].
struct RmsNormRow {
    int64_t groups = 1;
    int64_t size = 0;
    float eps = 0;
    const float* x = nullptr;
    const float* w = nullptr;
};
struct RmsNormLoops {
    // rstd may be null: not kept.
    void (*forward)(const RmsNormRow& row, float* rstd, float* y);
    // grad_w is added to; null: not wanted.
    void (*backward)(const RmsNormRow& row, const float* rstd, const float* grad_y, float* grad_x, float* grad_w);
    // tangent_w may be null: zero.
    void (*tangent)(const RmsNormRow& row, const float* tangent_x, const float* tangent_w, float* tangent_y);
};

namespace baseline {
extern const RmsNormLoops kRmsNormLoops;
}
namespace avx2 {
extern const RmsNormLoops kRmsNormLoops;
}
namespace avx512 {
extern const RmsNormLoops kRmsNormLoops;
}

}  // namespace windlass
