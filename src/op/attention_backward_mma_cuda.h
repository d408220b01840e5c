// attention_backward_mma_cuda.h: backward of attention on tensor cores. The mathematics:
// attention_backward_plain_cuda.h. For .cu files alone.
//
// Both kernels are one. By queries a block owns q and dO, and k and v stream past; by keys it owns k and v, and q and
// dO stream past:
//   x = own0 stream0^T (scores), y = own1 stream1^T (dp); sums += ds stream0 (dq, or dk), value sums += p stream1 (dv)
#pragma once

#include "op/attention_mma_cuda.h"

namespace windlass {

// What a query's weights are made with; one behind the row's last sees no key.
struct QueryFacts {
    float log_sum;  // of powers of two
    float delta;
    int first;
};

// How many rows stream past at a time, and which columns of the gradients a block sums up: as registers and the 99 KiB
// of shared memory that every card has allow.
template <int kSize, bool kByKeys>
struct GradientTiles {
    static constexpr bool kWide = kSize > kMmaSumsMax;
    static constexpr int kCols = kByKeys && kWide ? kMmaSumsMax : kSize, kParts = kSize / kCols;
    static constexpr int kOthers = kWide ? 16 : kSize > 64 ? 32 : 64;
    static constexpr int kStages = kWide ? 1 : 2;
    static constexpr int kOwnNumbers = kMmaOwn * mma_pitch(kSize), kOtherNumbers = kOthers * mma_pitch(kSize);
    static constexpr unsigned kTileBytes = 2 * (kOwnNumbers + kStages * kOtherNumbers) * sizeof(bf16);
    static constexpr unsigned kBytes = kTileBytes + (kByKeys ? kStages * kOthers * sizeof(QueryFacts) : 0);
    static_assert(kBytes <= kMmaSharedMax);
};

template <int kSize, bool kByKeys, bool kCapped>
struct MmaGradients {
    using Tiles = GradientTiles<kSize, kByKeys>;
    static constexpr int kOthers = Tiles::kOthers, kCols = Tiles::kCols;

    const AttentionArgs& args;
    const AttentionPlace place;
    const MmaLane lane;
    const int part, have;
    bf16 *const own, *const stages;
    QueryFacts* const streaming;  // [kStages, kOthers], by keys
    const float scale;            // of powers of two
    QueryFacts facts[2];          // of the lane's rows, by queries
    float sums[kCols / 8][4], value_sums[kByKeys ? kCols / 8 : 1][4];

    __device__ __forceinline__ MmaGradients(const AttentionArgs& given, const AttentionPlace& at, int part_of)
        : args(given),
          place(at),
          part(part_of),
          have(min(kMmaOwn, given.length - at.begin)),
          own(shared_memory<bf16>()),
          stages(own + 2 * Tiles::kOwnNumbers),
          streaming(reinterpret_cast<QueryFacts*>(shared_memory<unsigned char>() + Tiles::kTileBytes)),
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
        load_tile<kSize, kMmaOwn>(value, query_row(args, place) + place.begin, static_cast<int64_t>(place.head) * kSize,
                                  have, args.aligned, to);
    }
    __device__ __forceinline__ void load_others(const CudaValue& value, int head, int begin, bf16* to) const {
        load_tile<kSize, kOthers>(value, query_row(args, place) + begin, static_cast<int64_t>(head) * kSize,
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
                if (i < kOthers) streaming[stage * kOthers + i] = facts_of(begin + i, head);
            },
            [&](int tile, int stage) {
                const int begin = place.begin + tile % tiles * kOthers;
                const QueryFacts* const queries = streaming + stage * kOthers;
                take(begin, stage_at(stage), queries,
                     begin < place.begin + kMmaOwn - 1 || queries[kOthers - 1].first > place.begin);
            });
        write(args.grads.k, sums);
        write(args.grads.v, value_sums);
    }

    // The keys that the block's queries see.
    __device__ __forceinline__ void run_queries() {
        load_own(args.in.q, own);
        load_own(args.grad_out, own + Tiles::kOwnNumbers);
        WINDLASS_UNROLL
        for (int i = 0; i < 2; ++i) facts[i] = facts_of(place.begin + lane.row(i), place.head);
        const int begin = first_key(args, place.row, place.begin),
                  key_head = place.head / (args.heads / args.key_heads);
        const int unseen_by_last = first_key(args, place.row, place.begin + kMmaOwn - 1);
        stream_tiles<Tiles::kStages>(
            tiles_of(place.begin + have - begin, kOthers),
            [&](int tile, int stage) {
                load_others(args.in.k, key_head, begin + tile * kOthers, stage_at(stage));
                load_others(args.in.v, key_head, begin + tile * kOthers, stage_at(stage) + Tiles::kOtherNumbers);
            },
            [&](int tile, int stage) {
                const int key = begin + tile * kOthers;
                take(key, stage_at(stage), nullptr, key < unseen_by_last || key + kOthers - 1 > place.begin);
            });
        write(args.grads.q, sums);
    }

    // queries: those of the tile, by keys. is_masked: some query of it does not see some key.
    __device__ __forceinline__ void take(int begin, const bf16* stage, const QueryFacts* queries, bool is_masked) {
        constexpr int kPitch = mma_pitch(kSize);
        const bf16* const mine = own + lane.warp * kMmaWarpRows * kPitch;
        const bf16* const second = stage + Tiles::kOtherNumbers;
        float p[kOthers / 8][4], ds[kOthers / 8][4];
        clear_sums(p);
        clear_sums(ds);
        multiply_rows<kSize, kOthers>(mine, stage, p);
        multiply_rows<kSize, kOthers>(mine + Tiles::kOwnNumbers, second, ds);
        if constexpr (kCapped) cap_products(args, p);
        WINDLASS_UNROLL
        for (int n = 0; n < kOthers / 8; ++n) {
            WINDLASS_UNROLL
            for (int i = 0; i < 4; ++i) {
                const int other = n * 8 + lane.col() + i % 2, row = place.begin + lane.row(i / 2);
                const QueryFacts query = kByKeys ? queries[other] : facts[i / 2];
                const int at = kByKeys ? begin + other : row, key = kByKeys ? row : begin + other;
                const float score = p[n][i], weight = exp2_quick(__fmaf_rn(score, scale, -query.log_sum));
                p[n][i] = is_masked && (key < query.first || key > at) ? 0.0f : weight;
                ds[n][i] = args.scale * p[n][i] * (ds[n][i] - query.delta);
                if constexpr (kCapped) ds[n][i] *= slope_of_cap(args, score);
            }
        }
        mix_rows<kOthers, kCols, kPitch>(ds, stage + part * kCols, sums);
        if constexpr (kByKeys) mix_rows<kOthers, kCols, kPitch>(p, second + part * kCols, value_sums);
    }

    template <int kCount>
    __device__ __forceinline__ void write(const CudaValue& value, const float (&from)[kCount][4]) const {
        WINDLASS_UNROLL
        for (int i = 0; i < 2; ++i) {
            const int row = place.begin + lane.row(i);
            if (row >= args.length) continue;
            write_sums(value, query_row(args, place) + row,
                       static_cast<int64_t>(place.head) * kSize + part * kCols + lane.col(), i, 1.0f, args.aligned,
                       from);
        }
    }
};

template <int kSize, bool kByKeys, bool kCapped>
__global__ void __launch_bounds__(kMmaThreads, kMmaBlocks) attention_gradients_mma(AttentionArgs args) {
    constexpr unsigned kParts = GradientTiles<kSize, kByKeys>::kParts;
    const unsigned block = blockIdx.x / kParts;
    const int part = static_cast<int>(blockIdx.x % kParts);
    if constexpr (kByKeys) {
        MmaGradients<kSize, true, kCapped>(args, key_place(args, block, kMmaOwn), part).run_keys();
    } else {
        MmaGradients<kSize, false, kCapped>(args, query_place(args, block, kMmaOwn), part).run_queries();
    }
}

// False: heads of this size have no such kernel.
template <bool kByKeys>
bool launch_gradients_mma(const AttentionArgs& args, CudaStreamHandle stream) {
    return by_mma_size(args, [&]<int kSize, bool kCapped>() {
        using Tiles = GradientTiles<kSize, kByKeys>;
        const int tiles = (args.length + kMmaOwn - 1) / kMmaOwn * (kByKeys ? args.key_heads : args.heads) * args.rows;
        const CudaGrid grid{.blocks = static_cast<unsigned>(tiles * Tiles::kParts),
                            .threads = kMmaThreads,
                            .shared_bytes = Tiles::kBytes};
        launch(stream, grid, attention_gradients_mma<kSize, kByKeys, kCapped>, args,
               kByKeys ? "attention backward by keys" : "attention backward by queries");
    });
}

}  // namespace windlass
