// preference_cuda.h: the launch of the CUDA kernel of preference; what it computes: ops.h.
#pragma once

#include "op/values_cuda.h"

namespace windlass {

inline constexpr int64_t kPairsAtOnce = 128;  // what the host knows of them travels among the kernel's arguments

// A block a pair. Where `out` is a pointer, it gets the pairs' losses and rewards; `grad` the gradients of tokens;
// where `tangent_in` is, `out` gets tangents instead, of k directions.
struct PreferenceArgs {
    const float* in = nullptr;  // [tokens], `in_stride` apart
    const int32_t* targets = nullptr;
    const float* tangent_in = nullptr;  // [k * tokens]
    float *out = nullptr, *grad = nullptr;
    int64_t in_stride = 1, tangent_stride = 1, out_stride = 1, grad_stride = 1;
    int64_t first_pair = 0, sequence_length = 0, tokens = 0;
    int32_t ignored = 0;
    int k = 1;
    bool adds = false, is_orpo = false;
    double beta = 0, loss_scale = 1;
    double references[2 * kPairsAtOnce] = {};
    int32_t answers[2 * kPairsAtOnce] = {};
};
void launch_preference(const PreferenceArgs& args, int64_t pairs, CudaStreamHandle stream);
// out = in
void launch_token_losses(const PreferenceArgs& args, CudaStreamHandle stream);

}  // namespace windlass
