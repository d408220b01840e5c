// embedding_cuda.h: launches of the CUDA kernels of embedding; what they compute: ops.h.
#pragma once

#include "op/values_cuda.h"

namespace windlass {

struct EmbeddingArgs {
    const int32_t* ids = nullptr;  // [tokens]
    int64_t offset = 0, tokens = 0, cols = 0;
    CudaWeight table;           // forward
    CudaValue out;              // forward, tangent: [k * tokens, cols]; backward: grad_out
    float* gradient = nullptr;  // backward: [rows, cols], added to
    int32_t* sorted = nullptr;  // backward: scratch of two lists of tokens
    int digits = 0;             // of the rows' numbers, which the launch sets
    // tangent: in full, or as factors of this rank
    CudaValue direction;  // [k * rows, cols]
    int64_t k = 1, rows = 0, rank = 0;
    const float *left = nullptr, *right = nullptr;  // [k * rank, rows], [k * rank, cols]
};

void launch_embedding_forward(bool is_bf16, const EmbeddingArgs& args, CudaStreamHandle stream);
void launch_embedding_backward(bool is_bf16, const EmbeddingArgs& args, CudaStreamHandle stream);
void launch_embedding_tangent(bool is_bf16, const EmbeddingArgs& args, CudaStreamHandle stream);

}  // namespace windlass
