// attention_softmax_mma_cuda.h: forward of attention and its tangents on tensor cores. The mathematics:
// attention_softmax_plain_cuda.h. For .cu files alone.
#pragma once

#include "op/attention_mma_cuda.h"

namespace windlass {

// How many bands a warp has, how many keys stream past at a time, and which columns of the values a block sums up: as
// registers and the 99 KiB of shared memory that every card has allow.
template <int kSize, bool kTangent, bool kCapped>
struct SoftmaxTiles {
    static constexpr bool kWide = kSize > kMmaSumsMax;
    static constexpr int kValues = kTangent ? 2 : 1;  // the primal, and its tangent
    static constexpr int kCols = kTangent && kWide ? kMmaSumsMax : kSize, kParts = kSize / kCols;
    static constexpr int kBands = kTangent || kWide || kCapped ? 1 : 2, kOwn = mma_own(kBands);
    static constexpr int kKeys = kTangent                               ? (kSize >= kMmaSumsMax ? 16 : 32)
                                 : kWide || (kBands == 2 && kSize > 80) ? 32
                                                                        : 64;
    static constexpr int kStages = kTangent && kWide ? 1 : 2;
    static constexpr int kQueryNumbers = kOwn * mma_pitch(kSize), kKeyNumbers = kKeys * mma_pitch(kSize),
                         kValueNumbers = kKeys * mma_pitch(kCols),
                         kStageNumbers = kValues * (kKeyNumbers + kValueNumbers);
    static constexpr unsigned kBytes = (kValues * kQueryNumbers + kStages * kStageNumbers) * sizeof(bf16);
    static_assert(kBytes <= kMmaSharedMax);
};

template <int kSize, bool kTangent, bool kCapped>
struct MmaQueries {
    using Tiles = SoftmaxTiles<kSize, kTangent, kCapped>;
    static constexpr int kKeys = Tiles::kKeys, kCols = Tiles::kCols, kBands = Tiles::kBands, kRows = 2 * kBands;
    using Scores = float[kBands][kKeys / 8][4];  // rows of a lane: kRows

    const AttentionArgs& args;
    const AttentionPlace place, primal;  // the primal's rows are those of direction 0
    const MmaLane<kBands> lane;
    const int part, key_head, have;
    const int seen_by_first;  // the last key of the first query
    const float scale;        // of powers of two
    float greatest[kRows], total[kRows] = {}, mean[kRows] = {};
    float sums[kBands][kCols / 8][4], changes[kBands][kTangent ? kCols / 8 : 1][4];

    __device__ __forceinline__ MmaQueries(const AttentionArgs& given, const AttentionPlace& at, int part_of)
        : args(given),
          place(at),
          primal{at.row, at.head, at.begin, 0},
          part(part_of),
          key_head(at.head / (given.heads / given.key_heads)),
          have(min(Tiles::kOwn, given.length - at.begin)),
          seen_by_first(given.cached + at.begin),
          scale(exponent_scale<kCapped>(given) * kLog2E) {
        WINDLASS_UNROLL
        for (int i = 0; i < kRows; ++i) greatest[i] = kNoScore;
        clear_sums(sums);
        clear_sums(changes);
    }

    // Shared memory: the block's queries, then the stages.
    __device__ __forceinline__ static bf16* queries() { return shared_memory<bf16>(); }
    __device__ __forceinline__ static bf16* stage_at(int stage) {
        return queries() + Tiles::kValues * Tiles::kQueryNumbers + stage * Tiles::kStageNumbers;
    }

    __device__ __forceinline__ void run() {
        load_queries(args.in.q, primal, queries());
        if constexpr (kTangent) load_queries(args.tangents.q, place, queries() + Tiles::kQueryNumbers);
        const int begin = first_key(args, place.row, place.begin), end = args.cached + place.begin + have;
        stream_tiles<Tiles::kStages>(
            tiles_of(end - begin, kKeys),
            [&](int tile, int stage) { start(begin + tile * kKeys, end, stage_at(stage)); },
            [&](int tile, int stage) { take(begin + tile * kKeys, stage_at(stage)); });
        WINDLASS_UNROLL
        for (int i = 0; i < kRows; ++i) write_row(i);
    }

    __device__ __forceinline__ void load_queries(const CudaValue& value, const AttentionPlace& from, bf16* to) {
        load_tile<kSize, Tiles::kOwn>(value, query_row(args, from) + place.begin, int64_t{place.head} * args.head_size,
                                      args.head_size, have, args.aligned, to);
    }

    // A stage holds keys, their tangents, values and their tangents.
    __device__ __forceinline__ void start(int begin, int end, bf16* stage) {
        const int64_t col = int64_t{key_head} * args.head_size;
        const int count = min(kKeys, end - begin);
        WINDLASS_UNROLL
        for (int i = 0; i < Tiles::kValues; ++i) {
            const AttentionHeadsCuda& from = i == 0 ? args.in : args.tangents;
            const int64_t row = key_row(args, i == 0 ? primal : place) + begin;
            load_tile<kSize, kKeys>(from.k, row, col, args.head_size, count, args.aligned,
                                    stage + i * Tiles::kKeyNumbers);
            load_tile<kCols, kKeys>(from.v, row, col + part * kCols, args.head_size - part * kCols, count, args.aligned,
                                    stage + Tiles::kValues * Tiles::kKeyNumbers + i * Tiles::kValueNumbers);
        }
    }

    __device__ __forceinline__ void take(int begin, bf16* stage) {
        const bf16* const q = queries() + lane.first_row() * mma_pitch(kSize);
        bf16* const values = stage + Tiles::kValues * Tiles::kKeyNumbers;
        const int unseen_by_last = first_key(args, place.row, place.begin + Tiles::kOwn - 1);  // no register keeps it
        const bool is_masked = begin < unseen_by_last || begin + kKeys - 1 > seen_by_first;
        if (is_masked) {
            WINDLASS_UNROLL
            for (int i = 0; i < Tiles::kValues; ++i) clear_faults<kCols, kKeys>(values + i * Tiles::kValueNumbers);
            __syncthreads();
        }
        Scores weights;
        clear_sums(weights);
        multiply_rows<kSize, kKeys>(q, stage, weights);
        if constexpr (kCapped) cap_products(args, weights);
        float slopes[kBands][kTangent && kCapped ? kKeys / 8 : 1][4];
        if constexpr (kTangent && kCapped)
            for_scores([&](int band, int n, int i) { slopes[band][n][i] = slope_of_cap(args, weights[band][n][i]); });
        if (is_masked) mask(begin, weights);
        WINDLASS_UNROLL
        for (int i = 0; i < kRows; ++i) weigh(i, weights[i / 2], i % 2);
        if (is_masked) spread_faults<kCols, kKeys>(weights, values, sums);
        mix_rows<kKeys, kCols, mma_pitch(kCols)>(weights, values, sums);
        if constexpr (kTangent) {
            // A NaN of the values is in the sums, and so in what is made of them.
            if (is_masked) spread_faults<kCols, kKeys>(weights, values + Tiles::kValueNumbers, changes);
            mix_rows<kKeys, kCols, mma_pitch(kCols)>(weights, values + Tiles::kValueNumbers, changes);
            Scores weight_changes;
            clear_sums(weight_changes);
            multiply_rows<kSize, kKeys>(q + Tiles::kQueryNumbers, stage, weight_changes);
            multiply_rows<kSize, kKeys>(q, stage + Tiles::kKeyNumbers, weight_changes);
            for_scores([&](int band, int n, int i) {
                float& change = weight_changes[band][n][i];
                change = weights[band][n][i] * (args.scale * change);
                if constexpr (kCapped) change *= slopes[band][n][i];
                if (weights[band][n][i] == 0.0f) change = 0.0f;  // of a key that is not seen it may be NaN
                mean[2 * band + i / 2] += change;
            });
            mix_rows<kKeys, kCols, mma_pitch(kCols)>(weight_changes, values, changes);
        }
    }

    // Number i of eight columns n of a band.
    template <typename Do>
    __device__ __forceinline__ static void for_scores(Do each) {
        WINDLASS_UNROLL
        for (int band = 0; band < kBands; ++band) WINDLASS_UNROLL
        for (int n = 0; n < kKeys / 8; ++n) WINDLASS_UNROLL
        for (int i = 0; i < 4; ++i) each(band, n, i);
    }

    // Few tiles are masked: what a row sees first is found again for each.
    __device__ __forceinline__ void mask(int begin, Scores& scores) {
        int first[kRows];
        WINDLASS_UNROLL
        for (int i = 0; i < kRows; ++i) first[i] = first_key(args, place.row, place.begin + lane.row(i));
        for_scores([&](int band, int n, int i) {
            const int key = begin + n * 8 + lane.col() + i % 2, row = 2 * band + i / 2;
            if (key < first[row] || key > seen_by_first + lane.row(row)) scores[band][n][i] = kNoScore;
        });
    }

    // Row i of the lane's, `half` of those of its band: scores become weights relative to the greatest one so far, and
    // the sums are rescaled to it too. The four lanes of a row share it. (Not rescaling the sums when the greatest
    // score rises by little took an H200 2 % longer.)
    __device__ __forceinline__ void weigh(int i, float (&scores)[kKeys / 8][4], int half) {
        float now = greatest[i];
        WINDLASS_UNROLL
        for (int n = 0; n < kKeys / 8; ++n) now = fmaxf(now, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
        now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
        now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
        const float under = now == kNoScore ? 0.0f : now * scale;
        const float factor = exp2_quick(__fmaf_rn(greatest[i], scale, -under));
        greatest[i] = now;
        total[i] *= factor;
        mean[i] *= factor;
        WINDLASS_UNROLL
        for (int n = 0; n < kCols / 8; ++n) WINDLASS_UNROLL
        for (int j = 2 * half; j < 2 * half + 2; ++j) {
            sums[i / 2][n][j] *= factor;
            if constexpr (kTangent) changes[i / 2][n][j] *= factor;
        }
        WINDLASS_UNROLL
        for (int n = 0; n < kKeys / 8; ++n) WINDLASS_UNROLL
        for (int j = 2 * half; j < 2 * half + 2; ++j) {
            scores[n][j] = exp2_quick(__fmaf_rn(scores[n][j], scale, -under));
            total[i] += scores[n][j];
        }
    }

    __device__ __forceinline__ void write_row(int i) {
        WINDLASS_UNROLL
        for (int apart = 1; apart <= 2; ++apart) {
            total[i] += __shfl_xor_sync(0xffffffffu, total[i], apart);
            mean[i] += __shfl_xor_sync(0xffffffffu, mean[i], apart);
        }
        const int query = place.begin + lane.row(i);
        if (query >= args.length) return;
        const int64_t row = query_row(args, place) + query;
        const int skipped = part * kCols + lane.col(), columns = args.head_size - skipped;
        const int64_t col = int64_t{place.head} * args.head_size + skipped;
        if constexpr (kTangent) {
            WINDLASS_UNROLL
            for (int n = 0; n < kCols / 8; ++n) WINDLASS_UNROLL
            for (int j = 2 * (i % 2); j < 2 * (i % 2) + 2; ++j)
                changes[i / 2][n][j] = __fmaf_rn(-mean[i] / total[i], sums[i / 2][n][j], changes[i / 2][n][j]);
            write_sums(args.tangent_out, row, col, columns, i % 2, 1.0f / total[i], args.aligned, changes[i / 2]);
        } else {
            write_sums(args.out, row, col, columns, i % 2, 1.0f / total[i], args.aligned, sums[i / 2]);
            if (args.log_sum != nullptr && lane.col() == 0)
                args.log_sum[row * args.log_sum_stride + place.head] =
                    greatest[i] * exponent_scale<kCapped>(args) + logf(total[i]);
        }
    }
};

template <int kSize, bool kTangent, bool kCapped>
__global__ void __launch_bounds__(kMmaThreads, kMmaBlocks) attention_softmax_mma(AttentionArgs args) {
    using Tiles = SoftmaxTiles<kSize, kTangent, kCapped>;
    constexpr unsigned kParts = Tiles::kParts;
    const AttentionPlace place = query_place(args, blockIdx.x / kParts, Tiles::kOwn);
    MmaQueries<kSize, kTangent, kCapped>(args, place, static_cast<int>(blockIdx.x % kParts)).run();
}

// False: heads of this size have no such kernel.
template <bool kTangent>
bool launch_softmax_mma(const AttentionArgs& args, CudaStreamHandle stream, const char* name) {
    return by_mma_size(args, [&]<int kSize, bool kCapped>() {
        using Tiles = SoftmaxTiles<kSize, kTangent, kCapped>;
        const CudaGrid grid{.blocks = query_tiles(args, Tiles::kOwn) * Tiles::kParts,
                            .threads = kMmaThreads,
                            .shared_bytes = Tiles::kBytes};
        launch(stream, grid, attention_softmax_mma<kSize, kTangent, kCapped>, args, name);
    });
}

}  // namespace windlass
