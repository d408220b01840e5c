#include "op/pointwise_kernel_cuda.h"
#include "op/relu_cuda.h"

namespace windlass {
namespace relu_kernels {

// A NaN passes: the comparison is written so that it fails for one.
struct Forward {
    static constexpr const char* kName = "relu forward";
    static constexpr int kIn = 1, kOut = 1;
    __device__ static void apply(const float* in, float* out) { out[0] = in[0] <= 0.0f ? 0.0f : in[0]; }
};

// in: x or y, which are positive together, and what passes where they are
struct Slope {
    static constexpr const char* kName = "relu slope";
    static constexpr int kIn = 2, kOut = 1;
    __device__ static void apply(const float* in, float* out) { out[0] = in[0] <= 0.0f ? 0.0f : in[1]; }
};

}  // namespace relu_kernels

void launch_relu_forward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<relu_kernels::Forward>(is_bf16, args, stream);
}

void launch_relu_backward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<relu_kernels::Slope>(is_bf16, args, stream);
}

void launch_relu_tangent(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<relu_kernels::Slope>(is_bf16, args, stream);
}

}  // namespace windlass
