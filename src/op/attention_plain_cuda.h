// attention_plain_cuda.h: tiles of the kernels of attention that go without tensor cores: every type and head size, all
// in f32. For .cu files alone.
//
// A block owns 16 rows (queries, or keys), and others stream past it 32 at a time. Eight lanes share an owned row: each
// has every eighth row of a streaming tile, and every eighth number of the row's sums.
#pragma once

#include "op/attention_rows_cuda.h"

namespace windlass {

inline constexpr int kPlainThreads = 128, kPlainOwn = 16, kPlainStream = 32, kPlainLanes = 8;
inline constexpr int kPlainBlocks = 2;  // of a multiprocessor at once, at least: what registers are counted by
inline constexpr int kPlainOthers = kPlainStream / kPlainLanes;            // streaming rows of a lane
inline constexpr int kPlainNumbers = kAttentionCudaSizeMax / kPlainLanes;  // of a row, of a lane, at most

// Two tiles of owned rows, two of streaming ones, and weights between them. Rows lie an odd number apart, for the
// banks.
struct PlainTiles {
    float *own[2], *stream[2], *weights;
    int pitch;

    __device__ explicit PlainTiles(int head_size) : pitch(head_size | 1) {
        own[0] = shared_memory<float>();
        own[1] = own[0] + kPlainOwn * pitch;
        stream[0] = own[1] + kPlainOwn * pitch;
        stream[1] = stream[0] + kPlainStream * pitch;
        weights = stream[1] + kPlainStream * pitch;
    }
    static unsigned bytes(int head_size) {
        const int pitch = head_size | 1;
        return static_cast<unsigned>(2 * (kPlainOwn + kPlainStream) * pitch + kPlainOwn * (kPlainStream + 1)) *
               sizeof(float);
    }
};

// A thread's place in a block.
struct PlainLane {
    int own = static_cast<int>(threadIdx.x) / kPlainLanes;
    int part = static_cast<int>(threadIdx.x) % kPlainLanes;
};

// Rows of a head as f32: those of `value` from `row` on, zeros after the first `have` of `count`.
template <typename T>
__device__ inline void load_plain(const CudaValue& value, int64_t row, int64_t col, int have, int count, int size,
                                  float* to, int pitch) {
    for (int i = static_cast<int>(threadIdx.x); i < count * size; i += kPlainThreads) {
        const int at = i / size, number = i % size;
        to[at * pitch + number] = at < have ? read<T>(value, row + at, col + number) : 0.0f;
    }
}

// Four sums side by side: none waits for the one before it, and each is of a quarter of the terms.
__device__ inline float plain_dot(const float* x, const float* y, int size) {
    float sums[4] = {};
    int i = 0;
    for (; i + 4 <= size; i += 4) {
        WINDLASS_UNROLL
        for (int j = 0; j < 4; ++j) sums[j] = __fmaf_rn(x[i + j], y[i + j], sums[j]);
    }
    for (; i < size; ++i) sums[0] = __fmaf_rn(x[i], y[i], sums[0]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// A query's product with a key, or what the softcap makes of it.
template <bool kCapped>
__device__ inline float plain_score(const AttentionArgs& args, const float* x, const float* y) {
    const float product = plain_dot(x, y, args.head_size);
    return kCapped ? args.softcap * tanhf(product * args.scale / args.softcap) : product;
}

// The sum, and the greatest, over the lanes of a row.
__device__ inline float plain_row_sum(float x) {
    for (int apart = kPlainLanes / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(0xffffffffu, x, apart);
    return x;
}
__device__ inline float plain_row_max(float x) {
    for (int apart = kPlainLanes / 2; apart > 0; apart /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, apart));
    return x;
}

// sums += weights * rows: what a lane has of its row, `mine` being its weights of its streaming rows. The lanes of a
// row are of one warp. A row that is not seen has weight 0: it adds nothing, though it may be NaN.
__device__ inline void plain_mix(const PlainTiles& tiles, const PlainLane& lane, const float* mine, const float* rows,
                                 int size, float* sums) {
    float* const weights = tiles.weights + lane.own * (kPlainStream + 1);
    __syncwarp();
    for (int j = 0; j < kPlainOthers; ++j) weights[lane.part + j * kPlainLanes] = mine[j];
    __syncwarp();
    for (int other = 0; other < kPlainStream; ++other) {
        const float weight = weights[other];
        const float* const row = rows + other * tiles.pitch;
        WINDLASS_UNROLL
        for (int i = 0; i < kPlainNumbers; ++i) {
            const int at = lane.part + i * kPlainLanes;
            if (at < size && weight != 0.0f) sums[i] = __fmaf_rn(weight, row[at], sums[i]);
        }
    }
}

// Writes a lane's part of a row.
template <typename T>
__device__ inline void plain_write(const CudaValue& value, int64_t row, int64_t col, const PlainLane& lane, int size,
                                   const float* sums) {
    WINDLASS_UNROLL
    for (int i = 0; i < kPlainNumbers; ++i) {
        const int at = lane.part + i * kPlainLanes;
        if (at < size) write<T>(value, row, col + at, sums[i]);
    }
}

}  // namespace windlass
