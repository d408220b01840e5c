#include "op/pointwise_kernel_cuda.h"
#include "op/tanh_cuda.h"

namespace windlass {
namespace tanh_kernels {

struct Forward {
    static constexpr const char* kName = "tanh forward";
    static constexpr int kIn = 1, kOut = 1;
    __device__ static void apply(const float* in, float* out) { out[0] = tanhf(in[0]); }
};

// in: y, dy
struct Backward {
    static constexpr const char* kName = "tanh backward";
    static constexpr int kIn = 2, kOut = 1;
    __device__ static void apply(const float* in, float* out) { out[0] = in[1] * (1.0f - in[0] * in[0]); }
};

// in: x, x'
struct Tangent {
    static constexpr const char* kName = "tanh tangent";
    static constexpr int kIn = 2, kOut = 1;
    __device__ static void apply(const float* in, float* out) {
        const float t = tanhf(in[0]);
        out[0] = in[1] * (1.0f - t * t);
    }
};

}  // namespace tanh_kernels

void launch_tanh_forward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<tanh_kernels::Forward>(is_bf16, args, stream);
}

void launch_tanh_backward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<tanh_kernels::Backward>(is_bf16, args, stream);
}

void launch_tanh_tangent(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<tanh_kernels::Tangent>(is_bf16, args, stream);
}

}  // namespace windlass
