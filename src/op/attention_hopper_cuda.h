// attention_hopper_cuda.h: launches of the kernels of attention for compute capability 9.0 (sm_90a), bf16; what they
// compute: ops.h. Heads of 64, 80, 96, 128 and 256; with a softcap of 128 and 256.
//
// A block of three warp groups: one loads boxes of rows into stages of shared memory, two multiply them (wgmma.h). Sums
// have an order that the head size and the length of a row decide:
//   forward, tangent  a query's keys in tiles from the last to the first (forward) or the first to the last (tangent)
//   dq                keys in tiles, first to last
//   dk, dv            heads of a group in order; for each, queries in tiles of 64, first to last
#pragma once

#include "device/cuda/tensor_map.h"
#include "op/attention_cuda.h"

namespace windlass {

inline constexpr int kHopperTangentSizeMax = 128;  // of a head: registers hold the sums of no more

// Whether this program has them: builds without sm_90a run on no such card.
#ifdef WINDLASS_NO_HOPPER
inline constexpr bool kHasHopperKernels = false;
#else
inline constexpr bool kHasHopperKernels = true;
#endif

// Rows of a block's own tile, and of the tiles that stream past it.
struct HopperTiles {
    int own = 0, others = 0;
};
// Columns of a head in shared memory: boxes are whole.
constexpr int hopper_columns(int head_size) {
    return (head_size + kBoxColumns - 1) / kBoxColumns * kBoxColumns;
}
constexpr HopperTiles forward_tiles(int head_size) {
    return {128, head_size > 128 ? 64 : 128};
}
constexpr HopperTiles by_keys_tiles(int head_size) {
    return {head_size > 128 ? 64 : 128, 64};
}
// 96 keys at 128: as fast as any on an H200; 64 at 64.
constexpr HopperTiles by_queries_tiles(int head_size) {
    return {128, head_size > 128 ? 48 : head_size > 64 ? 96 : 64};
}
constexpr HopperTiles tangent_tiles(int) {
    return {128, 64};
}

// The maps have boxes of as many rows as the kernel's tiles.
struct AttentionHopperArgs {
    AttentionArgs call;
    TensorMap q, k, v;
    TensorMap grad_out;      // backward
    TensorMap dq, dk, dv;    // tangent: of directions [k * rows]
    bool by_length = false;  // blocks: the longest tiles of all heads first; else one head after another
};

// Each returns false if no such kernel takes the call: then attention_cuda.h's do.
bool launch_attention_forward_hopper(const AttentionArgs& args, CudaStreamHandle stream);
// Of backward after launch_attention_delta().
bool launch_attention_by_keys_hopper(const AttentionArgs& args, CudaStreamHandle stream);
bool launch_attention_by_queries_hopper(const AttentionArgs& args, CudaStreamHandle stream);
bool launch_attention_tangent_hopper(const AttentionArgs& args, CudaStreamHandle stream);

// The kernels themselves, for arguments with maps.
void launch_forward_kernel(const AttentionHopperArgs& args, CudaStreamHandle stream);
void launch_by_keys_kernel(const AttentionHopperArgs& args, CudaStreamHandle stream);
void launch_by_queries_kernel(const AttentionHopperArgs& args, CudaStreamHandle stream);
void launch_tangent_kernel(const AttentionHopperArgs& args, CudaStreamHandle stream);

}  // namespace windlass
