#include "op/math_cuda.h"
#include "op/pointwise_kernel_cuda.h"
#include "op/swiglu_cuda.h"

namespace windlass {
namespace swiglu_kernels {

// f(g) = g s(g) with the sigmoid s; df/dg = s + g s (1 - s)
struct Silu {
    __device__ static float value(float x) { return x * sigmoid(x); }
    __device__ static float slope(float x) {
        const float s = sigmoid(x);
        return s + x * s * (1.0f - s);
    }
};

// y = f(g) u; in: gate g, up u
template <typename F>
struct Forward {
    static constexpr const char* kName = "swiglu forward";
    static constexpr int kIn = 2, kOut = 1;
    __device__ static void apply(const float* in, float* out) { out[0] = F::value(in[0]) * in[1]; }
};

// dy/dg = u df/dg, dy/du = f; in: gate, up, grad_out; out: grad_gate, grad_up
template <typename F>
struct Backward {
    static constexpr const char* kName = "swiglu backward";
    static constexpr int kIn = 3, kOut = 2;
    __device__ static void apply(const float* in, float* out) {
        out[0] = in[2] * in[1] * F::slope(in[0]);
        out[1] = in[2] * F::value(in[0]);
    }
};

// in: gate, up, tangent_gate, tangent_up
template <typename F>
struct Tangent {
    static constexpr const char* kName = "swiglu tangent";
    static constexpr int kIn = 4, kOut = 1;
    __device__ static void apply(const float* in, float* out) {
        out[0] = in[1] * F::slope(in[0]) * in[2] + F::value(in[0]) * in[3];
    }
};

}  // namespace swiglu_kernels

void launch_swiglu_forward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<swiglu_kernels::Forward<swiglu_kernels::Silu>>(is_bf16, args, stream);
}

void launch_swiglu_backward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<swiglu_kernels::Backward<swiglu_kernels::Silu>>(is_bf16, args, stream);
}

void launch_swiglu_tangent(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<swiglu_kernels::Tangent<swiglu_kernels::Silu>>(is_bf16, args, stream);
}

void launch_geglu_forward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<swiglu_kernels::Forward<GeluTanh>>(is_bf16, args, stream);
}

void launch_geglu_backward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<swiglu_kernels::Backward<GeluTanh>>(is_bf16, args, stream);
}

void launch_geglu_tangent(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<swiglu_kernels::Tangent<GeluTanh>>(is_bf16, args, stream);
}

}  // namespace windlass
