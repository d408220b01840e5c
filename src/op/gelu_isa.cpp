#include "op/gelu.h"
#include "op/loops_inline.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

// Exact: y = x P(x), dy/dx = P(x) + x p(x), with the standard normal distribution P and its density p.
struct Exact {
    static float value(float x) { return x * normal_cdf_from(x, exp_float(-0.5f * x * x)); }
    static float slope(float x) {
        constexpr float kInverseRoot2Pi = 0.3989422804f;
        const float gauss = exp_float(-0.5f * x * x);
        return normal_cdf_from(x, gauss) + x * kInverseRoot2Pi * gauss;
    }
};

template <typename Kind>
void forward(const float* const* in, float* const* out, int64_t n) {
    const float* x = in[0];
    float* y = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = Kind::value(x[i]);
}

// in: x, and what the slope multiplies: grad_out or tangent_in
template <typename Kind>
void times_slope(const float* const* in, float* const* out, int64_t n) {
    const float *x = in[0], *factor = in[1];
    float* y = out[0];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = factor[i] * Kind::slope(x[i]);
}

}  // namespace

extern const PointwiseLoops kGeluExactLoops = {forward<Exact>, times_slope<Exact>, times_slope<Exact>};
extern const PointwiseLoops kGeluTanhLoops = {forward<GeluTanh>, times_slope<GeluTanh>, times_slope<GeluTanh>};

}  // namespace WINDLASS_ISA
}  // namespace windlass
