#include "op/pointwise_kernel_cuda.h"
#include "op/tanh_cuda.h"

namespace windlass {
namespace {

struct TanhForward {
    static constexpr const char* kName = "tanh forward";
    static constexpr int kIn = 1, kOut = 1;
    __device__ static void apply(const float* in, float* out) { out[0] = tanhf(in[0]); }
};

// in: y, dy
struct TanhBackward {
    static constexpr const char* kName = "tanh backward";
    static constexpr int kIn = 2, kOut = 1;
    __device__ static void apply(const float* in, float* out) { out[0] = in[1] * (1.0f - in[0] * in[0]); }
};

// in: x, x'
struct TanhTangent {
    static constexpr const char* kName = "tanh tangent";
    static constexpr int kIn = 2, kOut = 1;
    __device__ static void apply(const float* in, float* out) {
        const float t = tanhf(in[0]);
        out[0] = in[1] * (1.0f - t * t);
    }
};

}  // namespace

void launch_tanh_forward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<TanhForward>(is_bf16, args, stream);
}

void launch_tanh_backward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<TanhBackward>(is_bf16, args, stream);
}

void launch_tanh_tangent(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<TanhTangent>(is_bf16, args, stream);
}

}  // namespace windlass
