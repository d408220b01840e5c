#include "op/attention_hopper_cuda.h"

#include "device/cuda/runtime.h"

namespace windlass {
namespace attention_hopper_cells {

// Whether boxes may have these rows: all begin where 16 bytes do.
bool has_boxes(const CudaValue& value) {
    return value.data != nullptr && reinterpret_cast<uintptr_t>(value.data) % 16 == 0 && value.stride % 8 == 0;
}
bool has_boxes(const AttentionHeadsCuda& heads) {
    return has_boxes(heads.q) && has_boxes(heads.k) && has_boxes(heads.v);
}
// A tangent that is missing is zero: boxes after the last row of its value are.
bool has_boxes_or_nothing(const CudaValue& value) {
    return value.data == nullptr || has_boxes(value);
}
// What kernels store two numbers at a time, or not at all.
bool has_pairs(const CudaValue& value) {
    return reinterpret_cast<uintptr_t>(value.data) % 4 == 0 && value.stride % 2 == 0;
}

// The cells of the mma kernels, and of the plain ones, take the rest.
bool is_taken(const AttentionArgs& args, CudaStreamHandle stream, int size_max = kAttentionCudaSizeMax) {
    const int size = tensor_core_size(args);
    return kHasHopperKernels && size != 0 && size <= size_max && args.head_size % 8 == 0 && has_boxes(args.in) &&
           cuda_runtime().architecture(stream).capability == kHopper;
}

struct MapRows {
    int heads = 0, rows = 0;
    int tokens = 0;        // of a row: zeros after them
    int tokens_apart = 0;  // from one row to the next
};
TensorMap map_of(const CudaValue& value, const AttentionArgs& args, const MapRows& rows, int box_tokens) {
    return cuda_runtime().tensor_map({.data = value.data,
                                      .columns = args.head_size,
                                      .heads = rows.heads,
                                      .tokens = rows.tokens,
                                      .rows = rows.rows,
                                      .head_stride = args.head_size,
                                      .token_stride = value.stride,
                                      .row_stride = value.stride * rows.tokens_apart,
                                      .box_tokens = box_tokens});
}
TensorMap of_queries(const CudaValue& value, const AttentionArgs& args, int box_tokens, int directions = 1) {
    return map_of(value, args, {args.heads, args.rows * directions, args.length, args.length}, box_tokens);
}
TensorMap of_keys(const CudaValue& value, const AttentionArgs& args, int box_tokens, int directions = 1) {
    return map_of(value, args, {args.key_heads, args.rows * directions, args.cached + args.length, args.key_rows},
                  box_tokens);
}

// The longest tiles first where the blocks are few waves: else the last of them would run alone. All tiles of a head
// after one another where they are many: keys and values stay in the card's cache. Measured on an H200.
bool is_by_length(const AttentionArgs& args, int tile, int heads, CudaStreamHandle stream) {
    const int waves = tensor_core_size(args) > 64 ? 8 : 2;
    const int64_t tiles = (args.length + tile - 1) / tile;
    return tiles * heads * args.rows * args.directions <=
           int64_t{waves} * cuda_runtime().architecture(stream).multiprocessors;
}

}  // namespace attention_hopper_cells

bool launch_attention_forward_hopper(const AttentionArgs& args, CudaStreamHandle stream) {
    using namespace attention_hopper_cells;
    if (!is_taken(args, stream) || !has_pairs(args.out)) return false;
    const HopperTiles tiles = forward_tiles(tensor_core_size(args));
    launch_forward_kernel({.call = args,
                           .q = of_queries(args.in.q, args, tiles.own),
                           .k = of_keys(args.in.k, args, tiles.others),
                           .v = of_keys(args.in.v, args, tiles.others),
                           .by_length = is_by_length(args, tiles.own, args.heads, stream)},
                          stream);
    return true;
}

bool launch_attention_by_keys_hopper(const AttentionArgs& args, CudaStreamHandle stream) {
    using namespace attention_hopper_cells;
    if (!is_taken(args, stream) || !has_boxes(args.grad_out) || !has_pairs(args.grads.k) || !has_pairs(args.grads.v))
        return false;
    const HopperTiles tiles = by_keys_tiles(tensor_core_size(args));
    launch_by_keys_kernel({.call = args,
                           .q = of_queries(args.in.q, args, tiles.others),
                           .k = of_keys(args.in.k, args, tiles.own),
                           .v = of_keys(args.in.v, args, tiles.own),
                           .grad_out = of_queries(args.grad_out, args, tiles.others),
                           .by_length = is_by_length(args, tiles.own, args.key_heads, stream)},
                          stream);
    return true;
}

bool launch_attention_by_queries_hopper(const AttentionArgs& args, CudaStreamHandle stream) {
    using namespace attention_hopper_cells;
    if (!is_taken(args, stream) || !has_boxes(args.grad_out) || !has_pairs(args.grads.q)) return false;
    const HopperTiles tiles = by_queries_tiles(tensor_core_size(args));
    launch_by_queries_kernel({.call = args,
                              .q = of_queries(args.in.q, args, tiles.own),
                              .k = of_keys(args.in.k, args, tiles.others),
                              .v = of_keys(args.in.v, args, tiles.others),
                              .grad_out = of_queries(args.grad_out, args, tiles.own),
                              .by_length = is_by_length(args, tiles.own, args.heads, stream)},
                             stream);
    return true;
}

bool launch_attention_tangent_hopper(const AttentionArgs& args, CudaStreamHandle stream) {
    using namespace attention_hopper_cells;
    const AttentionHeadsCuda& tangents = args.tangents;
    if (!is_taken(args, stream, kHopperTangentSizeMax) || !has_boxes_or_nothing(tangents.q) ||
        !has_boxes_or_nothing(tangents.k) || !has_boxes_or_nothing(tangents.v) || !has_pairs(args.tangent_out))
        return false;
    const auto or_value = [](const CudaValue& tangent, const CudaValue& value) {
        return tangent.data == nullptr ? value : tangent;
    };
    const auto directions = [&](const CudaValue& tangent) { return tangent.data == nullptr ? 1 : args.directions; };
    const HopperTiles tiles = tangent_tiles(tensor_core_size(args));
    launch_tangent_kernel({.call = args,
                           .q = of_queries(args.in.q, args, tiles.own),
                           .k = of_keys(args.in.k, args, tiles.others),
                           .v = of_keys(args.in.v, args, tiles.others),
                           .dq = of_queries(or_value(tangents.q, args.in.q), args, tiles.own, directions(tangents.q)),
                           .dk = of_keys(or_value(tangents.k, args.in.k), args, tiles.others, directions(tangents.k)),
                           .dv = of_keys(or_value(tangents.v, args.in.v), args, tiles.others, directions(tangents.v)),
                           .by_length = is_by_length(args, tiles.own, args.heads, stream)},
                          stream);
    return true;
}

}  // namespace windlass
