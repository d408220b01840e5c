#include "op/gelu_cuda.h"
#include "op/math_cuda.h"
#include "op/pointwise_kernel_cuda.h"

namespace windlass {
namespace gelu_kernels {

// Exact: y = x P(x), dy/dx = P(x) + x p(x), with the standard normal distribution P and its density p. By erfc, which
// loses no digits where P is near zero.
struct Exact {
    __device__ static float cdf(float x) { return 0.5f * erfcf(-0.70710678118f * x); }
    __device__ static float value(float x) { return x * cdf(x); }
    __device__ static float slope(float x) { return cdf(x) + x * 0.3989422804f * expf(-0.5f * x * x); }
};

template <typename Kind>
struct Forward {
    static constexpr const char* kName = "gelu forward";
    static constexpr int kIn = 1, kOut = 1;
    __device__ static void apply(const float* in, float* out) { out[0] = Kind::value(in[0]); }
};

template <typename Kind>
struct Slope {
    static constexpr const char* kName = "gelu slope";
    static constexpr int kIn = 2, kOut = 1;
    __device__ static void apply(const float* in, float* out) { out[0] = in[1] * Kind::slope(in[0]); }
};

}  // namespace gelu_kernels

void launch_gelu_exact_forward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<gelu_kernels::Forward<gelu_kernels::Exact>>(is_bf16, args, stream);
}

void launch_gelu_tanh_forward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<gelu_kernels::Forward<GeluTanh>>(is_bf16, args, stream);
}

void launch_gelu_exact_slope(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<gelu_kernels::Slope<gelu_kernels::Exact>>(is_bf16, args, stream);
}

void launch_gelu_tanh_slope(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<gelu_kernels::Slope<GeluTanh>>(is_bf16, args, stream);
}

}  // namespace windlass
