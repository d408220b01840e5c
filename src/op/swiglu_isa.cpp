#include "op/loops_inline.h"
#include "op/swiglu.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

// f(g) = g s(g) with the sigmoid s; df/dg = s + g s (1 - s)
struct Silu {
    static float value(float x) { return x * sigmoid(x); }
    static float slope(float x) {
        const float s = sigmoid(x);
        return s + x * s * (1.0f - s);
    }
};

// y = f(g) u; in: gate g, up u
template <typename F>
void forward(const float* const* in, float* const* out, int64_t n) {
    const float *gate = in[0], *up = in[1];
    float* y = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = F::value(gate[i]) * up[i];
}

// dy/dg = u df/dg, dy/du = f; in: gate, up, grad_out; out: grad_gate, grad_up
template <typename F>
void backward(const float* const* in, float* const* out, int64_t n) {
    const float *gate = in[0], *up = in[1], *grad = in[2];
    float *grad_gate = out[0], *grad_up = out[1];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
        grad_gate[i] = grad[i] * up[i] * F::slope(gate[i]);
        grad_up[i] = grad[i] * F::value(gate[i]);
    }
}

// in: gate, up, tangent_gate, tangent_up
template <typename F>
void tangent(const float* const* in, float* const* out, int64_t n) {
    const float *gate = in[0], *up = in[1], *tangent_gate = in[2], *tangent_up = in[3];
    float* y = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
        y[i] = up[i] * F::slope(gate[i]) * tangent_gate[i] + F::value(gate[i]) * tangent_up[i];
}

}  // namespace

extern const PointwiseLoops kSwigluLoops = {forward<Silu>, backward<Silu>, tangent<Silu>};
extern const PointwiseLoops kGegluLoops = {forward<GeluTanh>, backward<GeluTanh>, tangent<GeluTanh>};

}  // namespace WINDLASS_ISA
}  // namespace windlass
