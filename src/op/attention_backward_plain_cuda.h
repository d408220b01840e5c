// attention_backward_plain_cuda.h: backward of attention without tensor cores. For .cu files alone.
//
// Probabilities are rebuilt from q, k and the saved log-sum-exp, tile by tile (Dao, "FlashAttention-2", 2023,
// algorithm 2). With D = rowsum(dO * O):
//   p = exp(scale q k^T - log_sum), ds = scale p * (dO v^T - D), dv = p^T dO, dk = ds^T q, dq = ds k;
// ds has the slope of the softcap as a factor where there is one.
// dq is summed up by tiles of queries, dk and dv by tiles of keys: no two blocks add to the same sum, and each sum has
// one order. For that the scores are computed twice.
#pragma once

#include "op/attention_plain_cuda.h"

namespace windlass {

// By keys, the block owns k and v, and q and dO stream past; else it is the other way round.
template <typename T, bool kByKeys, bool kCapped>
struct PlainGradients {
    const AttentionArgs& args;
    const AttentionPlace place;
    const PlainTiles tiles;
    const PlainLane lane;
    const int size, own;                                 // `own`: of the row
    float sums[kPlainNumbers] = {};                      // of dk, or dq
    float value_sums[kByKeys ? kPlainNumbers : 1] = {};  // of dv
    float log_sum = 0, delta = 0;                        // of the lane's query, where it owns one
    int first = 0;

    __device__ PlainGradients(const AttentionArgs& given, const AttentionPlace& at)
        : args(given), place(at), tiles(given.head_size), size(given.head_size), own(at.begin + lane.own) {}

    __device__ void load(const CudaValue& value, int head, int begin, int count, float* to) {
        load_plain<T>(value, query_row(args, place) + begin, head * size, min(count, args.length - begin), count, size,
                      to, tiles.pitch);
    }

    __device__ void run_keys() {
        load(args.in.k, place.head, place.begin, kPlainOwn, tiles.own[0]);
        load(args.in.v, place.head, place.begin, kPlainOwn, tiles.own[1]);
        const int group = args.heads / args.key_heads;
        const int end = queries_end(args, place.row, place.begin, min(args.length, place.begin + kPlainOwn));
        for (int i = 0; i < group; ++i) {
            const int head = place.head * group + i;
            for (int begin = place.begin; begin < end; begin += kPlainStream) {
                load(args.in.q, head, begin, kPlainStream, tiles.stream[0]);
                load(args.grad_out, head, begin, kPlainStream, tiles.stream[1]);
                take(begin, head);
            }
        }
        if (own >= args.length) return;
        const int64_t row = query_row(args, place) + own, col = static_cast<int64_t>(place.head) * size;
        plain_write<T>(args.grads.k, row, col, lane, size, sums);
        plain_write<T>(args.grads.v, row, col, lane, size, value_sums);
    }

    __device__ void run_queries() {
        const int key_head = place.head / (args.heads / args.key_heads), known = min(own, args.length - 1);
        load(args.in.q, place.head, place.begin, kPlainOwn, tiles.own[0]);
        load(args.grad_out, place.head, place.begin, kPlainOwn, tiles.own[1]);
        read_query(known, place.head);
        const int end = min(args.length, place.begin + kPlainOwn);
        for (int begin = first_key(args, place.row, place.begin); begin < end; begin += kPlainStream) {
            load(args.in.k, key_head, begin, kPlainStream, tiles.stream[0]);
            load(args.in.v, key_head, begin, kPlainStream, tiles.stream[1]);
            take(begin, place.head);
        }
        if (own >= args.length) return;
        plain_write<T>(args.grads.q, query_row(args, place) + own, static_cast<int64_t>(place.head) * size, lane, size,
                       sums);
    }

    __device__ void read_query(int query, int head) {
        const int64_t row = query_row(args, place) + query;
        log_sum = args.log_sum[row * args.log_sum_stride + head];
        delta = args.delta[row * args.heads + head];
        first = first_key(args, place.row, query);
    }

    __device__ void take(int begin, int head) {
        float p[kPlainOthers], ds[kPlainOthers];
        __syncthreads();
        WINDLASS_UNROLL
        for (int j = 0; j < kPlainOthers; ++j) {
            const int other = lane.part + j * kPlainLanes;
            const int query = kByKeys ? begin + other : own, key = kByKeys ? own : begin + other;
            p[j] = ds[j] = 0;
            if (query >= args.length || key > query) continue;
            if constexpr (kByKeys) read_query(query, head);
            if (key < first) continue;
            const float score = plain_score<kCapped>(args, tiles.own[0] + lane.own * tiles.pitch,
                                                     tiles.stream[0] + other * tiles.pitch);
            const float dp =
                plain_dot(tiles.own[1] + lane.own * tiles.pitch, tiles.stream[1] + other * tiles.pitch, size);
            p[j] = expf(score * exponent_scale<kCapped>(args) - log_sum);
            ds[j] = args.scale * p[j] * (dp - delta);
            if constexpr (kCapped) ds[j] *= slope_of_cap(args, score);
        }
        plain_mix(tiles, lane, ds, tiles.stream[0], size, sums);
        if constexpr (kByKeys) plain_mix(tiles, lane, p, tiles.stream[1], size, value_sums);
        __syncthreads();
    }
};

template <typename T, bool kByKeys, bool kCapped>
__global__ void __launch_bounds__(kPlainThreads, kPlainBlocks) attention_gradients_plain(AttentionArgs args) {
    if constexpr (kByKeys) {
        PlainGradients<T, true, kCapped>(args, key_place(args, blockIdx.x, kPlainOwn)).run_keys();
    } else {
        PlainGradients<T, false, kCapped>(args, query_place(args, blockIdx.x, kPlainOwn)).run_queries();
    }
}

template <typename T, bool kByKeys>
void launch_gradients_plain(const AttentionArgs& args, CudaStreamHandle stream) {
    const CudaGrid grid{.blocks = kByKeys ? key_tiles(args, kPlainOwn) : query_tiles(args, kPlainOwn),
                        .threads = kPlainThreads,
                        .shared_bytes = PlainTiles::bytes(args.head_size)};
    by_softcap(args, [&]<bool kCapped>() {
        launch(stream, grid, attention_gradients_plain<T, kByKeys, kCapped>, args,
               kByKeys ? "attention backward by keys" : "attention backward by queries");
    });
}

}  // namespace windlass
