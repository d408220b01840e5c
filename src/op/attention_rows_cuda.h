// attention_rows_cuda.h: what the kernels of attention agree on: which block works on what, and who sees whom. For .cu
// files alone.
//
// Keys are counted within their row of the batch, cached ones first; query t has position cached + t among them.
// doc_start does not fall along a row, so what a query sees begins no earlier than what the one before it sees.
#pragma once

#include "device/cuda/unroll.h"
#include "op/attention_cuda.h"
#include "op/numbers_cuda.h"

namespace windlass {

// What a block works on: a tile of queries (or keys) of one head (or key head), of one direction.
struct AttentionPlace {
    int row = 0, head = 0, begin = 0, direction = 0;
};

__host__ __device__ inline int tiles_of(int count, int tile) {
    return (count + tile - 1) / tile;
}

// A block for each tile of queries, or of keys.
inline int64_t query_tiles(const AttentionArgs& args, int tile) {
    return int64_t{tiles_of(args.length, tile)} * args.heads * args.rows * args.directions;
}
inline int64_t key_tiles(const AttentionArgs& args, int tile) {
    return int64_t{tiles_of(args.length, tile)} * args.key_heads * args.rows;
}

// The last tile of queries sees the most keys: it goes first.
__device__ inline AttentionPlace query_place(const AttentionArgs& args, unsigned block, int tile) {
    const int tiles = tiles_of(args.length, tile), index = static_cast<int>(block) % tiles,
              rest = static_cast<int>(block) / tiles;
    return {rest / args.heads % args.rows, rest % args.heads, (tiles - 1 - index) * tile,
            rest / args.heads / args.rows};
}

// The first tile of keys is seen by the most queries.
__device__ inline AttentionPlace key_place(const AttentionArgs& args, unsigned block, int tile) {
    const int tiles = tiles_of(args.length, tile), index = static_cast<int>(block) % tiles,
              rest = static_cast<int>(block) / tiles;
    return {rest / args.key_heads, rest % args.key_heads, index * tile, 0};
}

// The first key that a query sees; the last is its own. A query after the last of its row sees as that one does.
__device__ inline int first_key(const AttentionArgs& args, int row, int query) {
    const int known = min(query, args.length - 1);
    const int in_document = args.doc_start[static_cast<int64_t>(row) * args.length + known];
    const int in_window = args.window == 0 ? 0 : args.cached + known - args.window + 1;
    return max(in_document, in_window);
}

// One past the last query, from `begin` on, that sees a key before `keys_end`.
__device__ inline int queries_end(const AttentionArgs& args, int row, int begin, int keys_end) {
    int end = args.length;
    while (begin < end) {
        const int middle = (begin + end) / 2;
        if (first_key(args, row, middle) < keys_end)
            begin = middle + 1;
        else
            end = middle;
    }
    return end;
}

// Rows of a value [T, ...] that belong to a row of the batch, and of a value of k directions.
__device__ inline int64_t query_row(const AttentionArgs& args, const AttentionPlace& place) {
    return (static_cast<int64_t>(place.direction) * args.rows + place.row) * args.length;
}
__device__ inline int64_t key_row(const AttentionArgs& args, const AttentionPlace& place) {
    return (static_cast<int64_t>(place.direction) * args.rows + place.row) * args.key_rows;
}

// Of a pair of bf16: 1 in the half of each that is infinite or NaN.
__device__ __forceinline__ uint32_t faults_of(uint32_t pair) {
    return ((pair & 0x7f807f80u) + 0x00800080u) >> 15 & 0x00010001u;
}

constexpr float kNoScore = -INFINITY;

// What turns a score into an exponent: a softcap has scaled it already.
template <bool kCapped>
__device__ inline float exponent_scale(const AttentionArgs& args) {
    return kCapped ? 1.0f : args.scale;
}
// d score / d (scale * product) of a score under a softcap c: 1 - (score / c)^2; 0 where it is masked.
__device__ inline float slope_of_cap(const AttentionArgs& args, float score) {
    const float t = score / args.softcap;
    return score == kNoScore ? 0.0f : 1.0f - t * t;
}

// Calls launch.template operator()<kCapped>().
template <typename Launch>
auto by_softcap(const AttentionArgs& args, Launch launch) {
    return args.softcap == 0 ? launch.template operator()<false>() : launch.template operator()<true>();
}

}  // namespace windlass
