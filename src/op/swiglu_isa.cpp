#include "op/loops_inline.h"
#include "op/swiglu.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

// y = g s(g) u with the sigmoid s; in: gate g, up u
void forward(const float* const* in, float* const* out, int64_t n) {
    const float *gate = in[0], *up = in[1];
    float* y = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

// dy/dg = u (s + g s (1 - s)), dy/du = g s; in: gate, up, grad_out; out: grad_gate, grad_up
void backward(const float* const* in, float* const* out, int64_t n) {
    const float *gate = in[0], *up = in[1], *grad = in[2];
    float *grad_gate = out[0], *grad_up = out[1];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
        const float s = sigmoid(gate[i]);
        const float silu = gate[i] * s;
        grad_gate[i] = grad[i] * up[i] * (s + silu * (1.0f - s));
        grad_up[i] = grad[i] * silu;
    }
}

// in: gate, up, tangent_gate, tangent_up
void tangent(const float* const* in, float* const* out, int64_t n) {
    const float *gate = in[0], *up = in[1], *tangent_gate = in[2], *tangent_up = in[3];
    float* y = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
        const float s = sigmoid(gate[i]);
        const float silu = gate[i] * s;
        y[i] = up[i] * (s + silu * (1.0f - s)) * tangent_gate[i] + silu * tangent_up[i];
    }
}

}  // namespace

extern const PointwiseLoops kSwigluLoops = {forward, backward, tangent};

}  // namespace WINDLASS_ISA
}  // namespace windlass
