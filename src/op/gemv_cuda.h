// gemv_cuda.h: products of few rows on a CUDA device, as decoding has them: what bounds them is reading the weights.
#pragma once

#include "op/values_cuda.h"

namespace windlass {

inline constexpr int kGemvRowsMax = 4;

// y [M, N] = x [M, K] times the rows of weights [N, K], plus a bias [N]. Sums are of f32, in an order that K decides.
struct GemvArgs {
    CudaValue x, weights, y;
    const void* bias = nullptr;  // of y's type; null: none
    int rows = 0;                // M, at most kGemvRowsMax
    int64_t outputs = 0, inputs = 0;
    bool aligned = false;  // rows of x and of the weights begin, and end, where 16 bytes do
};

// x and the weights are of bf16 or of f32; y is of their type, or of f32.
void launch_gemv(bool is_bf16, bool gives_f32, const GemvArgs& args, CudaStreamHandle stream);

}  // namespace windlass
