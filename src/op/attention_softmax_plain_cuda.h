// attention_softmax_plain_cuda.h: forward of attention and its tangents, without tensor cores. For .cu files alone.
//
// The softmax is taken while keys stream past (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018; Dao, "FlashAttention-2", 2023, algorithm 1). Its tangent needs no second pass either (Lu and Song,
// "Simplifying, Stabilizing and Scaling Continuous-Time Consistency Models", 2024, appendix F): with c = scale (dq k^T
// + q dk^T) and p = exp(scale q k^T - m) under the greatest score m so far,
//   O += p v, C += (p * c) v + p dv, l += sum p, r += sum p * c; all shrink alike as m grows;
//   out = O / l, tangent_out = (C - (r / l) O) / l.
#pragma once

#include "op/attention_plain_cuda.h"

namespace windlass {

template <typename T, bool kTangent, bool kCapped>
struct PlainQueries {
    const AttentionArgs& args;
    const AttentionPlace place, primal;  // the primal's rows are those of direction 0
    const PlainTiles tiles;
    const PlainLane lane;
    const int size, query, first, key_head;
    float greatest = kNoScore, total = 0, mean = 0;
    float sums[kPlainNumbers] = {}, changes[kTangent ? kPlainNumbers : 1] = {};

    __device__ PlainQueries(const AttentionArgs& given, const AttentionPlace& at)
        : args(given),
          place(at),
          primal{at.row, at.head, at.begin, 0},
          tiles(given.head_size),
          size(given.head_size),
          query(at.begin + lane.own),
          first(first_key(given, at.row, at.begin + lane.own)),
          key_head(at.head / (given.heads / given.key_heads)) {}

    __device__ void run() {
        const int have = min(kPlainOwn, args.length - place.begin);
        load_queries(args.in.q, primal, have, tiles.own[0]);
        if constexpr (kTangent) load_queries(args.tangents.q, place, have, tiles.own[1]);
        const int end = args.cached + place.begin + have;
        for (int begin = first_key(args, place.row, place.begin); begin < end; begin += kPlainStream)
            take_keys(begin, min(kPlainStream, end - begin));
        write_results();
    }

    __device__ void load_queries(const CudaValue& value, const AttentionPlace& from, int have, float* to) {
        load_plain<T>(value, query_row(args, from) + place.begin, place.head * size, have, kPlainOwn, size, to,
                      tiles.pitch);
    }
    __device__ void load_keys(const CudaValue& value, const AttentionPlace& from, int begin, int have, float* to) {
        load_plain<T>(value, key_row(args, from) + begin, key_head * size, have, kPlainStream, size, to, tiles.pitch);
    }

    // Keys and values lie in the same place, one after the other.
    __device__ void take_keys(int begin, int have) {
        float weights[kPlainOthers], weight_changes[kPlainOthers];
        load_keys(args.in.k, primal, begin, have, tiles.stream[0]);
        if constexpr (kTangent) load_keys(args.tangents.k, place, begin, have, tiles.stream[1]);
        __syncthreads();
        weigh(begin, weights, weight_changes);
        __syncthreads();
        load_keys(args.in.v, primal, begin, have, tiles.stream[0]);
        if constexpr (kTangent) load_keys(args.tangents.v, place, begin, have, tiles.stream[1]);
        __syncthreads();
        plain_mix(tiles, lane, weights, tiles.stream[0], size, sums);
        if constexpr (kTangent) {
            plain_mix(tiles, lane, weights, tiles.stream[1], size, changes);
            plain_mix(tiles, lane, weight_changes, tiles.stream[0], size, changes);
        }
        __syncthreads();
    }

    // A lane's weights of a tile, under the greatest score so far. The maximum goes before the scale does: the scores
    // that count most lose least.
    __device__ void weigh(int begin, float* weights, float* weight_changes) {
        const float* const q = tiles.own[0] + lane.own * tiles.pitch;
        float tile_greatest = kNoScore;
        WINDLASS_UNROLL
        for (int j = 0; j < kPlainOthers; ++j) {
            const int other = lane.part + j * kPlainLanes, key = begin + other;
            const bool sees = key >= first && key <= args.cached + query;
            weights[j] = sees ? plain_score<kCapped>(args, q, tiles.stream[0] + other * tiles.pitch) : kNoScore;
            tile_greatest = fmaxf(tile_greatest, weights[j]);
        }
        rescale(plain_row_max(tile_greatest));
        WINDLASS_UNROLL
        for (int j = 0; j < kPlainOthers; ++j) {
            const float score = weights[j];
            weights[j] = score == kNoScore ? 0.0f : expf((score - greatest) * exponent_scale<kCapped>(args));
            total += weights[j];
            if constexpr (!kTangent) continue;
            const int other = (lane.part + j * kPlainLanes) * tiles.pitch;
            float change = plain_dot(tiles.own[1] + lane.own * tiles.pitch, tiles.stream[0] + other, size) +
                           plain_dot(q, tiles.stream[1] + other, size);
            if constexpr (kCapped) change *= slope_of_cap(args, score);
            weight_changes[j] = score == kNoScore ? 0.0f : weights[j] * (args.scale * change);
            mean += weight_changes[j];
        }
    }

    // Brings what is summed so far under a greater maximum.
    __device__ void rescale(float tile_greatest) {
        if (!(tile_greatest > greatest)) return;
        const float factor =
            greatest == kNoScore ? 0.0f : expf((greatest - tile_greatest) * exponent_scale<kCapped>(args));
        greatest = tile_greatest;
        total *= factor;
        mean *= factor;
        WINDLASS_UNROLL
        for (int i = 0; i < kPlainNumbers; ++i) {
            sums[i] *= factor;
            if constexpr (kTangent) changes[i] *= factor;
        }
    }

    __device__ void write_results() {
        total = plain_row_sum(total);
        mean = plain_row_sum(mean) / total;
        if (query >= args.length) return;
        const int64_t row = query_row(args, place) + query, col = static_cast<int64_t>(place.head) * size;
        if constexpr (kTangent) {
            WINDLASS_UNROLL
            for (int i = 0; i < kPlainNumbers; ++i) changes[i] = (changes[i] - mean * sums[i]) / total;
            plain_write<T>(args.tangent_out, row, col, lane, size, changes);
        } else {
            WINDLASS_UNROLL
            for (int i = 0; i < kPlainNumbers; ++i) sums[i] /= total;
            plain_write<T>(args.out, row, col, lane, size, sums);
            if (args.log_sum != nullptr && lane.part == 0)
                args.log_sum[row * args.log_sum_stride + place.head] =
                    greatest * exponent_scale<kCapped>(args) + logf(total);
        }
    }
};

template <typename T, bool kTangent, bool kCapped>
__global__ void __launch_bounds__(kPlainThreads, kPlainBlocks) attention_softmax_plain(AttentionArgs args) {
    PlainQueries<T, kTangent, kCapped>(args, query_place(args, blockIdx.x, kPlainOwn)).run();
}

template <typename T, bool kTangent>
void launch_softmax_plain(const AttentionArgs& args, CudaStreamHandle stream, const char* name) {
    const CudaGrid grid{.blocks = query_tiles(args, kPlainOwn),
                        .threads = kPlainThreads,
                        .shared_bytes = PlainTiles::bytes(args.head_size)};
    by_softcap(
        args, [&]<bool kCapped>() { launch(stream, grid, attention_softmax_plain<T, kTangent, kCapped>, args, name); });
}

}  // namespace windlass
