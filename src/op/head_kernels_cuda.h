// head_kernels_cuda.h: launches over the rows of a tile of logits: what cross_entropy computes of them (ops.h).
#pragma once

#include "op/cross_entropy.h"
#include "op/values_cuda.h"

namespace windlass {

// Tiles of logits become what the head makes of them, in place: z = scale x, or c tanh(scale x / c) with a softcap c.
struct HeadShapeArgs {
    float* logits = nullptr;  // [rows, vocab], rows `stride` apart
    int64_t stride = 0, rows = 0, vocab = 0;
    float scale = 1, softcap = 0;
};
void launch_head_shape(const HeadShapeArgs& args, CudaStreamHandle stream);

enum class HeadRow : uint8_t { loss, is_wrong, argmax, gradient, log_sum };

// A block a row.
struct HeadRowArgs {
    float* logits = nullptr;  // [rows, vocab], rows `stride` apart
    int64_t stride = 0, rows = 0, vocab = 0;
    const int32_t* targets = nullptr;  // [rows]
    int32_t ignored = 0;
    float* out = nullptr;  // [rows], `out_stride` apart; null: not wanted
    int64_t out_stride = 1;
    int64_t id_count = 0;  // argmax
    // gradient: in place of the logits, scale (p - one at the target); as bf16, rows 2 `stride` numbers apart.
    float scale = 1;
    const float* scales = nullptr;  // [rows], in its place
    int64_t scales_stride = 1;
    bool narrows = false;
    float logit_scale = 1, softcap = 0;  // what the logits were shaped with: their slope is part of the gradient
};
void launch_head_rows(HeadRow what, const HeadRowArgs& args, CudaStreamHandle stream);

// products[row, r] left[r, v] of some ranks r; none where `rank` is 0.
struct HeadFactorArgs {
    const float *products = nullptr, *left = nullptr;
    int64_t rank = 0, products_stride = 0;  // from one row of products to the next
};

// out = sum_v p_v dz_v - dz_target, with dz the slope times the change of the products, and what factors say of that
// change.
struct HeadTangentArgs {
    const float* logits = nullptr;    // [rows, vocab], rows `stride` apart
    const float* change = nullptr;    // likewise; null: zeros
    const float* log_sums = nullptr;  // [rows]
    int64_t stride = 0, rows = 0, vocab = 0;
    const int32_t* targets = nullptr;
    int32_t ignored = 0;
    float logit_scale = 1, softcap = 0;
    HeadFactorArgs factors[kHeadProductsMax];
    float* out = nullptr;
    int64_t out_stride = 1;
};
void launch_head_tangents(const HeadTangentArgs& args, CudaStreamHandle stream);

}  // namespace windlass
