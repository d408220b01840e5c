#include "op/pointwise/launches_cuda.h"
#include "op/pointwise_kernel_cuda.h"

namespace windlass {
namespace pointwise_kernels {
namespace {

struct Math {
    __device__ static float exp(float x) { return expf(x); }
    __device__ static float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
    __device__ static float tanh(float x) { return tanhf(x); }
    // By erfc, which loses no digits where it is near zero.
    __device__ static float normal_cdf(float x, float) { return 0.5f * erfcf(-0.70710678118f * x); }
};

template <typename Formulas, typename Formula>
struct Function {
    static constexpr const char* kName = Formulas::kName;
    static constexpr int kIn = Formula::kIn, kOut = Formula::kOut;
    __device__ static void apply(const float* in, float* out) {
        if constexpr (kIn == 1) make(out, in[0]);
        if constexpr (kIn == 2) make(out, in[0], in[1]);
        if constexpr (kIn == 3) make(out, in[0], in[1], in[2]);
        if constexpr (kIn == 4) make(out, in[0], in[1], in[2], in[3]);
    }
    template <typename... Numbers>
    __device__ static void make(float* out, Numbers... in) {
        out[0] = Formula::first(in...);
        if constexpr (kOut == 2) out[1] = Formula::second(in...);
    }
};

template <typename Formulas, typename Formula>
void launch_formula(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<Function<Formulas, Formula>>(is_bf16, args, stream);
}

struct Table {
    PointwiseLaunches of[kPointwiseCount];
};

template <typename... Formulas>
constexpr Table table_of(FormulaList<Formulas...>) {
    return {
        {{launch_formula<Formulas, typename Formulas::Forward>, launch_formula<Formulas, typename Formulas::Backward>,
          launch_formula<Formulas, typename Formulas::Tangent>}...}};
}

}  // namespace
}  // namespace pointwise_kernels

const PointwiseLaunches& pointwise_launches(Pointwise formula) {
    static constexpr pointwise_kernels::Table kTable =
        pointwise_kernels::table_of(AllFormulas<pointwise_kernels::Math>());
    return kTable.of[static_cast<int>(formula)];
}

}  // namespace windlass
