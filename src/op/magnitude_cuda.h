// magnitude_cuda.h: launches of the CUDA kernels of magnitude; what they compute: ops.h.
#pragma once

#include "op/pointwise_cuda.h"
#include "op/sums_cuda.h"

namespace windlass {

// cols of PointwiseArgs: the outputs F.
struct MagnitudeArgs : PointwiseArgs {
    CudaWeight m, w, a, b, bias;  // bias.base null: zeros
    bool in_out = false;          // w is [inputs, F], not [F, inputs]
    int64_t inputs = 0, rank = 0;
    float s = 1;
    float *c = nullptr, *inverse = nullptr;  // [F]: m / norm, 1 / norm; 0 where the norm is 0
    const void* tangent_m = nullptr;         // [k, F]
    // The gradient of m: of these values, and of grad_out, which is in[0].
    CudaValue x;
    CudaSum sum;
};

// Of c and inverse together.
constexpr int64_t magnitude_norm_bytes(int64_t outputs) {
    return 2 * ((outputs + 63) / 64 * 64) * static_cast<int64_t>(sizeof(float));
}

// Fills c and inverse, which the others read.
void launch_magnitude_norms(bool is_bf16, const MagnitudeArgs& args, CudaStreamHandle stream);
// in: x
void launch_magnitude_forward(bool is_bf16, const MagnitudeArgs& args, CudaStreamHandle stream);
// in: grad_out, or tangent_in where m does not move
void launch_magnitude_slopes(bool is_bf16, const MagnitudeArgs& args, CudaStreamHandle stream);
void launch_magnitude_gradient(bool is_bf16, const MagnitudeArgs& args, CudaStreamHandle stream);
// in: x, tangent_in; of an m that moves
void launch_magnitude_tangent(bool is_bf16, const MagnitudeArgs& args, CudaStreamHandle stream);

}  // namespace windlass
