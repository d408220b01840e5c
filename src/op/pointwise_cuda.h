// pointwise_cuda.h: ops that work number by number: what their kernels take, and the cells made of them.
#pragma once

#include <span>

#include "op/values_cuda.h"

namespace windlass {

struct OpCall;
struct Tensor;
class Stream;

inline constexpr int kCudaPointwiseMax = 4;

// Inputs below `own` have a row for each token, whatever the direction; the others one for each of k directions too.
struct PointwiseArgs {
    CudaValue in[kCudaPointwiseMax], out[2];
    int64_t rows = 0, cols = 0;  // of `out`
    int64_t tokens = 0;
    int own = 0;
};

using PointwiseLaunch = void (*)(bool is_bf16, const PointwiseArgs& args, CudaStreamHandle stream);

// in -> out; what backward reads and grad_out -> grad_in; what the tangent reads and tangent_in -> tangent_out.
PointwiseArgs pointwise_forward_args(const OpCall& call);
PointwiseArgs pointwise_backward_args(std::span<const Tensor> reads, const OpCall& call);
PointwiseArgs pointwise_tangent_args(std::span<const Tensor> reads, const OpCall& call);

// The same, launched: of ops whose kernels take no more than these.
void pointwise_forward_cuda(PointwiseLaunch launch, const OpCall& call, Stream& stream);
void pointwise_backward_cuda(PointwiseLaunch launch, std::span<const Tensor> reads, const OpCall& call, Stream& stream);
void pointwise_tangent_cuda(PointwiseLaunch launch, std::span<const Tensor> reads, const OpCall& call, Stream& stream);

}  // namespace windlass
