#include "op/math_cuda.h"
#include "op/pointwise_kernel_cuda.h"
#include "op/swiglu_cuda.h"

namespace windlass {
namespace {

// y = g s(g) u with the sigmoid s; in: gate g, up u
struct SwigluForward {
    static constexpr const char* kName = "swiglu forward";
    static constexpr int kIn = 2, kOut = 1;
    __device__ static void apply(const float* in, float* out) { out[0] = in[0] * sigmoid(in[0]) * in[1]; }
};

// dy/dg = u (s + g s (1 - s)), dy/du = g s; in: gate, up, grad_out; out: grad_gate, grad_up
struct SwigluBackward {
    static constexpr const char* kName = "swiglu backward";
    static constexpr int kIn = 3, kOut = 2;
    __device__ static void apply(const float* in, float* out) {
        const float s = sigmoid(in[0]), silu = in[0] * s;
        out[0] = in[2] * in[1] * (s + silu * (1.0f - s));
        out[1] = in[2] * silu;
    }
};

// in: gate, up, tangent_gate, tangent_up
struct SwigluTangent {
    static constexpr const char* kName = "swiglu tangent";
    static constexpr int kIn = 4, kOut = 1;
    __device__ static void apply(const float* in, float* out) {
        const float s = sigmoid(in[0]), silu = in[0] * s;
        out[0] = in[1] * (s + silu * (1.0f - s)) * in[2] + silu * in[3];
    }
};

}  // namespace

void launch_swiglu_forward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<SwigluForward>(is_bf16, args, stream);
}

void launch_swiglu_backward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<SwigluBackward>(is_bf16, args, stream);
}

void launch_swiglu_tangent(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<SwigluTangent>(is_bf16, args, stream);
}

}  // namespace windlass
