// attention_cuda.h: launches of the CUDA kernels of attention; what they compute: ops.h.
#pragma once

#include "op/values_cuda.h"

namespace windlass {

inline constexpr int kAttentionCudaSizeMax = 256;  // of a head
inline constexpr int kTensorCoreSizeMin = 32;

// Columns of a value: head h has [h * D, (h + 1) * D) of each.
struct AttentionHeadsCuda {
    CudaValue q, k, v;
};

struct AttentionArgs {
    int rows = 0, length = 0;  // of the batch
    int cached = 0;            // keys of each row before its first query
    int key_rows = 0;          // of a key matrix, from one row of the batch to the next
    int heads = 0, key_heads = 0, head_size = 0;
    int window = 0;  // 0: none
    float scale = 0;
    float softcap = 0;                   // 0: none
    const int32_t* doc_start = nullptr;  // [T]
    bool aligned = false;                // rows of all values begin where 16 bytes do
    AttentionHeadsCuda in;
    CudaValue out;             // forward writes it, backward reads it
    float* log_sum = nullptr;  // [T, H]: of scaled scores; forward: null where it is not kept
    int64_t log_sum_stride = 0;
    // backward
    CudaValue grad_out;
    AttentionHeadsCuda grads;
    float* delta = nullptr;  // scratch [T, H]
    // tangents of k directions, [k * T, C]
    int directions = 1;
    AttentionHeadsCuda tangents;
    CudaValue tangent_out;
};

// The head size of the kernels on tensor cores that take these heads, with columns of zeros after the last; with a
// softcap only the sizes have them whose models have one. 0: products would be zeros for the most part.
constexpr int tensor_core_size(int64_t head_size, bool is_capped) {
    if (head_size < kTensorCoreSizeMin || head_size > kAttentionCudaSizeMax) return 0;
    if (!is_capped)
        for (const int size : {64, 80, 96})
            if (head_size <= size) return size;
    return head_size <= 128 ? 128 : kAttentionCudaSizeMax;
}
constexpr int tensor_core_size(const AttentionArgs& args) {
    return tensor_core_size(args.head_size, args.softcap > 0);
}

// This call's keys and values, as decoding puts them after those that are cached.
struct AttentionAppendArgs {
    CudaValue from, cache;
    int rows = 0, length = 0, cached = 0, capacity = 0;
    int64_t cols = 0;
};

void launch_attention_append(bool is_bf16, const AttentionAppendArgs& args, CudaStreamHandle stream);
void launch_attention_forward(bool is_bf16, const AttentionArgs& args, CudaStreamHandle stream);
// Backward is delta, then dk and dv (of keys), then dq (of queries).
void launch_attention_delta(bool is_bf16, const AttentionArgs& args, CudaStreamHandle stream);
void launch_attention_by_keys(bool is_bf16, const AttentionArgs& args, CudaStreamHandle stream);
void launch_attention_by_queries(bool is_bf16, const AttentionArgs& args, CudaStreamHandle stream);
void launch_attention_tangent(bool is_bf16, const AttentionArgs& args, CudaStreamHandle stream);

}  // namespace windlass
