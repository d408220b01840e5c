#include "op/add_cuda.h"
#include "op/pointwise_kernel_cuda.h"

namespace windlass {
namespace add_kernels {

// in: two summands, or their tangents
struct Forward {
    static constexpr const char* kName = "add";
    static constexpr int kIn = 2, kOut = 1;
    __device__ static void apply(const float* in, float* out) { out[0] = in[0] + in[1]; }
};

// in: grad_out; out: the gradient of each summand
struct Backward {
    static constexpr const char* kName = "add backward";
    static constexpr int kIn = 1, kOut = 2;
    __device__ static void apply(const float* in, float* out) { out[0] = out[1] = in[0]; }
};

}  // namespace add_kernels

void launch_add_forward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<add_kernels::Forward>(is_bf16, args, stream);
}

void launch_add_backward(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<add_kernels::Backward>(is_bf16, args, stream);
}

void launch_add_tangent(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream) {
    launch_pointwise<add_kernels::Forward>(is_bf16, args, stream);
}

}  // namespace windlass
