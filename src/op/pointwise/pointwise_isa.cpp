#include "op/loops_inline.h"
#include "op/pointwise/loops.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

struct Math {
    static float exp(float x) { return exp_float(x); }
    static float sigmoid(float x) { return WINDLASS_ISA::sigmoid(x); }
    static float tanh(float x) { return tanh_float(x); }
    static float normal_cdf(float x, float gauss) { return normal_cdf_from(x, gauss); }
};

template <typename Formula, typename... Inputs>
void loop_over(float* const* out, int64_t n, Inputs... in) {
    float *y = out[0], *z = out[Formula::kOut - 1];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
        y[i] = Formula::first(in[i]...);
        if constexpr (Formula::kOut == 2) z[i] = Formula::second(in[i]...);
    }
}

template <typename Formula>
void loop(const float* const* in, float* const* out, int64_t n) {
    if constexpr (Formula::kIn == 1) loop_over<Formula>(out, n, in[0]);
    if constexpr (Formula::kIn == 2) loop_over<Formula>(out, n, in[0], in[1]);
    if constexpr (Formula::kIn == 3) loop_over<Formula>(out, n, in[0], in[1], in[2]);
    if constexpr (Formula::kIn == 4) loop_over<Formula>(out, n, in[0], in[1], in[2], in[3]);
}

template <typename... Formulas>
constexpr PointwiseTable table_of(FormulaList<Formulas...>) {
    return {
        {{loop<typename Formulas::Forward>, loop<typename Formulas::Backward>, loop<typename Formulas::Tangent>}...}};
}

}  // namespace

extern const PointwiseTable kPointwise = table_of(AllFormulas<Math>());

}  // namespace WINDLASS_ISA
}  // namespace windlass
