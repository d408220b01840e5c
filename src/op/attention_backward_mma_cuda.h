// attention_backward_mma_cuda.h: backward of attention on tensor cores. The mathematics:
// attention_backward_plain_cuda.h. For .cu files alone.
//
// Both kernels are one. By queries a block owns q and dO, and k and v stream past; by keys it owns k and v, and q and
// dO stream past:
//   x = own0 stream0^T (scores), y = own1 stream1^T (dp); sums += ds stream0 (dq, or dk), value sums += p stream1 (dv)
#pragma once

#include "op/attention_mma_cuda.h"

namespace windlass {

// What a query's weights are made with; one after the row's last sees no key.
struct QueryFacts {
    float log_sum;  // of powers of two
    float delta;
    int first;
};

// How many bands a warp has, how many rows stream past at a time, and which columns of the gradients a block sums up:
// as registers and the 99 KiB of shared memory that every card has allow.
template <int kSize, bool kByKeys>
struct GradientTiles {
    static constexpr bool kWide = kSize > kMmaSumsMax;
    static constexpr int kCols = kByKeys && kWide ? kMmaSumsMax : kSize, kParts = kSize / kCols;
    static constexpr int kBands = kByKeys || kWide ? 1 : 2, kOwn = mma_own(kBands);
    static constexpr int kOthers = kWide || (kBands == 2 && kSize == kMmaSumsMax) ? 16
                                   : kSize > 64 || kBands == 2                    ? 32
                                                                                  : 64;
    static constexpr int kStages = kWide ? 1 : 2;
    static constexpr int kOwnNumbers = kOwn * mma_pitch(kSize), kOtherNumbers = kOthers * mma_pitch(kSize);
    static constexpr unsigned kTileBytes = 2 * (kOwnNumbers + kStages * kOtherNumbers) * sizeof(bf16);
    static constexpr unsigned kBytes = kTileBytes + (kByKeys ? kStages * kOthers : kOwn) * sizeof(QueryFacts);
    static_assert(kBytes <= kMmaSharedMax);
};

template <int kSize, bool kByKeys, bool kCapped>
struct MmaGradients {
    using Tiles = GradientTiles<kSize, kByKeys>;
    static constexpr int kOthers = Tiles::kOthers, kCols = Tiles::kCols, kBands = Tiles::kBands, kRows = 2 * kBands;

    const AttentionArgs& args;
    const AttentionPlace place;
    const MmaLane<kBands> lane;
    const int part, have;
    bf16 *const own, *const stages;
    QueryFacts* const facts;  // in shared memory: by keys [kStages, kOthers], by queries [kOwn]
    const float scale;        // of powers of two
    float sums[kBands][kCols / 8][4], value_sums[kBands][kByKeys ? kCols / 8 : 1][4];

    __device__ __forceinline__ MmaGradients(const AttentionArgs& given, const AttentionPlace& at, int part_of)
        : args(given),
          place(at),
          part(part_of),
          have(min(Tiles::kOwn, given.length - at.begin)),
          own(shared_memory<bf16>()),
          stages(own + 2 * Tiles::kOwnNumbers),
          facts(reinterpret_cast<QueryFacts*>(shared_memory<unsigned char>() + Tiles::kTileBytes)),
          scale(exponent_scale<kCapped>(given) * kLog2E) {
        clear_sums(sums);
        clear_sums(value_sums);
    }

    __device__ __forceinline__ QueryFacts facts_of(int query, int head) const {
        if (query >= args.length) return {0, 0, args.length};
        const int64_t row = query_row(args, place) + query;
        return {args.log_sum[row * args.log_sum_stride + head] * kLog2E, args.delta[row * args.heads + head],
                first_key(args, place.row, query)};
    }

    __device__ __forceinline__ void load_own(const CudaValue& value, bf16* to) const {
        load_tile<kSize, Tiles::kOwn>(value, query_row(args, place) + place.begin, int64_t{place.head} * args.head_size,
                                      args.head_size, have, args.aligned, to);
    }
    __device__ __forceinline__ void load_others(const CudaValue& value, int head, int begin, bf16* to) const {
        load_tile<kSize, kOthers>(value, query_row(args, place) + begin, int64_t{head} * args.head_size, args.head_size,
                                  min(kOthers, args.length - begin), args.aligned, to);
    }
    __device__ __forceinline__ bf16* stage_at(int stage) const { return stages + stage * 2 * Tiles::kOtherNumbers; }

    // The queries that see the block's keys, of one head of the group after the other.
    __device__ __forceinline__ void run_keys() {
        load_own(args.in.k, own);
        load_own(args.in.v, own + Tiles::kOwnNumbers);
        const int group = args.heads / args.key_heads;
        const int tiles =
            tiles_of(queries_end(args, place.row, place.begin, place.begin + have) - place.begin, kOthers);
        stream_tiles<Tiles::kStages>(
            tiles * group,
            [&](int tile, int stage) {
                const int head = place.head * group + tile / tiles, begin = place.begin + tile % tiles * kOthers;
                load_others(args.in.q, head, begin, stage_at(stage));
                load_others(args.grad_out, head, begin, stage_at(stage) + Tiles::kOtherNumbers);
                const int i = static_cast<int>(threadIdx.x);
                if (i < kOthers) facts[stage * kOthers + i] = facts_of(begin + i, head);
            },
            [&](int tile, int stage) {
                const int begin = place.begin + tile % tiles * kOthers;
                const QueryFacts* const queries = facts + stage * kOthers;
                take(begin, stage_at(stage), queries,
                     begin < place.begin + Tiles::kOwn - 1 || queries[kOthers - 1].first > place.begin);
            });
        write(args.grads.k, sums);
        write(args.grads.v, value_sums);
    }

    // The keys that the block's queries see.
    __device__ __forceinline__ void run_queries() {
        load_own(args.in.q, own);
        load_own(args.grad_out, own + Tiles::kOwnNumbers);
        for (int i = static_cast<int>(threadIdx.x); i < Tiles::kOwn; i += kMmaThreads)
            facts[i] = facts_of(place.begin + i, place.head);
        const int begin = first_key(args, place.row, place.begin),
                  key_head = place.head / (args.heads / args.key_heads);
        const int unseen_by_last = first_key(args, place.row, place.begin + Tiles::kOwn - 1);
        stream_tiles<Tiles::kStages>(
            tiles_of(place.begin + have - begin, kOthers),
            [&](int tile, int stage) {
                load_others(args.in.k, key_head, begin + tile * kOthers, stage_at(stage));
                load_others(args.in.v, key_head, begin + tile * kOthers, stage_at(stage) + Tiles::kOtherNumbers);
            },
            [&](int tile, int stage) {
                const int key = begin + tile * kOthers;
                take(key, stage_at(stage), facts, key < unseen_by_last || key + kOthers - 1 > place.begin);
            });
        write(args.grads.q, sums);
    }

    // queries: by keys those of the tile, else the block's. is_masked: some query of it does not see some key.
    __device__ __forceinline__ void take(int begin, bf16* stage, const QueryFacts* queries, bool is_masked) {
        constexpr int kPitch = mma_pitch(kSize);
        const bf16* const of_warp = own + lane.first_row() * kPitch;
        bf16* const second = stage + Tiles::kOtherNumbers;
        float p[kBands][kOthers / 8][4], ds[kBands][kOthers / 8][4];
        clear_sums(p);
        clear_sums(ds);
        multiply_rows<kSize, kOthers>(of_warp, stage, p);
        multiply_rows<kSize, kOthers>(of_warp + Tiles::kOwnNumbers, second, ds);
        if constexpr (kCapped) cap_products(args, p);
        WINDLASS_UNROLL
        for (int band = 0; band < kBands; ++band) WINDLASS_UNROLL
        for (int n = 0; n < kOthers / 8; ++n) WINDLASS_UNROLL
        for (int i = 0; i < 4; ++i) {
            const int other = n * 8 + lane.col() + i % 2, mine = lane.row(2 * band + i / 2), row = place.begin + mine;
            const QueryFacts query = queries[kByKeys ? other : mine];
            const int at = kByKeys ? begin + other : row, key = kByKeys ? row : begin + other;
            float &weight = p[band][n][i], &change = ds[band][n][i];
            const float score = weight, power = exp2_quick(__fmaf_rn(score, scale, -query.log_sum));
            weight = is_masked && (key < query.first || key > at) ? 0.0f : power;
            change = args.scale * weight * (change - query.delta);
            if constexpr (kCapped) change *= slope_of_cap(args, score);
            if (weight == 0.0f) change = 0.0f;  // of a query, or a key, that is not seen it may be NaN
        }
        if (is_masked) {
            // A NaN in a row that is seen is in ds already, except one in dO, which dv needs.
            __syncthreads();
            clear_faults<kSize, kOthers>(stage);
            if constexpr (kByKeys) clear_faults<kSize, kOthers>(second);
            __syncthreads();
            if constexpr (kByKeys) spread_faults<kSize, kOthers>(p, second, value_sums);
        }
        mix_rows<kOthers, kCols, kPitch>(ds, stage + part * kCols, sums);
        if constexpr (kByKeys) mix_rows<kOthers, kCols, kPitch>(p, second + part * kCols, value_sums);
    }

    template <int kCount>
    __device__ __forceinline__ void write(const CudaValue& value, const float (&from)[kBands][kCount][4]) const {
        WINDLASS_UNROLL
        for (int i = 0; i < kRows; ++i) {
            const int row = place.begin + lane.row(i);
            if (row >= args.length) continue;
            const int skipped = part * kCols + lane.col();
            write_sums(value, query_row(args, place) + row, int64_t{place.head} * args.head_size + skipped,
                       args.head_size - skipped, i % 2, 1.0f, args.aligned, from[i / 2]);
        }
    }
};

template <int kSize, bool kByKeys, bool kCapped>
__global__ void __launch_bounds__(kMmaThreads, kMmaBlocks) attention_gradients_mma(AttentionArgs args) {
    using Tiles = GradientTiles<kSize, kByKeys>;
    constexpr unsigned kParts = Tiles::kParts;
    const unsigned block = blockIdx.x / kParts;
    const int part = static_cast<int>(blockIdx.x % kParts);
    if constexpr (kByKeys) {
        MmaGradients<kSize, true, kCapped>(args, key_place(args, block, Tiles::kOwn), part).run_keys();
    } else {
        MmaGradients<kSize, false, kCapped>(args, query_place(args, block, Tiles::kOwn), part).run_queries();
    }
}

// False: heads of this size have no such kernel.
template <bool kByKeys>
bool launch_gradients_mma(const AttentionArgs& args, CudaStreamHandle stream) {
    return by_mma_size(args, [&]<int kSize, bool kCapped>() {
        using Tiles = GradientTiles<kSize, kByKeys>;
        const int64_t tiles = kByKeys ? key_tiles(args, Tiles::kOwn) : query_tiles(args, Tiles::kOwn);
        const CudaGrid grid{.blocks = tiles * Tiles::kParts, .threads = kMmaThreads, .shared_bytes = Tiles::kBytes};
        launch(stream, grid, attention_gradients_mma<kSize, kByKeys, kCapped>, args,
               kByKeys ? "attention backward by keys" : "attention backward by queries");
    });
}

}  // namespace windlass
