// attention_mma_cuda.h: tiles and products of the kernels of attention on tensor cores: bf16, heads of the sizes that
// models have; others take the next larger one's, with zeros after their columns. For .cu files alone.
//
// A block of four warps owns rows (queries, or keys), each warp one or two bands of 16 of them, and others stream past
// it, the next tile on its way while one is worked on. With two bands a warp reads what streams past once for both:
// what it reads from shared memory is what it waits for. Scores and weights stay in registers: the sums that a product
// leaves in a warp are laid out as the next one takes its left factor (mma.h).
#pragma once

#include "device/cuda/async_copy.h"
#include "device/cuda/mma.h"
#include "device/cuda/unroll.h"
#include "op/attention_rows_cuda.h"

namespace windlass {

inline constexpr int kMmaThreads = 128, kMmaBandRows = 16;
inline constexpr int kMmaBlocks = 1;     // of a multiprocessor at once, at least: no more registers are spared
inline constexpr int kMmaSumsMax = 128;  // columns that a block sums up for each of two results, at most
inline constexpr unsigned kMmaSharedMax = 99 << 10;  // bytes that a block may have on every architecture
inline constexpr float kLog2E = 1.44269504f;

// Rows in shared memory begin 16 bytes after a multiple of 32: eight of them lie in different banks.
__host__ __device__ constexpr int mma_pitch(int size) {
    return size + 8;
}

// Rows that a block owns.
constexpr int mma_own(int bands) {
    return kMmaThreads / static_cast<int>(kWarp) * bands * kMmaBandRows;
}

// A thread's place in the fragments of its block.
template <int kBands>
struct MmaLane {
    int warp = static_cast<int>(threadIdx.x / kWarp);
    int lane = static_cast<int>(threadIdx.x % kWarp);
    __device__ int first_row() const { return warp * kBands * kMmaBandRows; }  // of its warp
    // Of the sums of band b it has rows row(2 b) and row(2 b + 1) of the block, and of each eight columns those from
    // col() on, two.
    __device__ int row(int i) const { return first_row() + i / 2 * kMmaBandRows + lane / 4 + 8 * (i % 2); }
    __device__ int col() const { return 2 * (lane % 4); }
};

// The next `columns` of rows from (row, col) on, or kSize of them if there are more, into rows of shared memory; zeros
// after these, after the first `have` of kRows, and where there is no value. Arrives with the copies of its group, or
// at the next barrier.
template <int kSize, int kRows>
__device__ __forceinline__ void load_tile(const CudaValue& value, int64_t row, int64_t col, int columns, int have,
                                          bool aligned, bf16* to) {
    constexpr int kPack = 8, kPacks = kSize / kPack;
    const bf16* const from = static_cast<const bf16*>(value.data) + row * value.stride + col;
    if (value.data == nullptr) have = 0;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += kMmaThreads) {
        const int at = i / kPacks, number = i % kPacks * kPack;
        const bf16* const pack = from + at * value.stride + number;
        bf16* const target = to + at * mma_pitch(kSize) + number;
        if (aligned) {
            const bool has_pack = at < have && number < columns;
            start_copy(target, has_pack ? pack : nullptr, has_pack);
        } else {
            for (int n = 0; n < kPack; ++n) target[n] = at < have && number + n < columns ? pack[n] : bf16{0};
        }
    }
}

// sums [16, kRows] of each band += own [16 kBands, kSize] other [kRows, kSize]^T
template <int kSize, int kRows, int kBands>
__device__ __forceinline__ void multiply_rows(const bf16* own, const bf16* other, float (&sums)[kBands][kRows / 8][4]) {
    constexpr int kPitch = mma_pitch(kSize);
    const int lane = static_cast<int>(threadIdx.x % kWarp);
    const bf16* const own_row = own + lane % 16 * kPitch + lane / 16 * 8;
    const bf16* const other_row = other + (lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 8;
    WINDLASS_UNROLL
    for (int k = 0; k < kSize; k += 16) {
        uint32_t a[kBands][4];
        WINDLASS_UNROLL
        for (int band = 0; band < kBands; ++band) load_matrices(a[band], own_row + band * kMmaBandRows * kPitch + k);
        WINDLASS_UNROLL
        for (int n = 0; n < kRows; n += 16) {
            uint32_t b[4];
            load_matrices(b, other_row + n * kPitch + k);
            WINDLASS_UNROLL
            for (int band = 0; band < kBands; ++band) {
                multiply_add(sums[band][n / 8], a[band], b[0], b[1]);
                multiply_add(sums[band][n / 8 + 1], a[band], b[2], b[3]);
            }
        }
    }
}

// sums [16, kCols] of each band += weights [16, kRows] rows [kRows, kCols], rows kPitch apart; weights are rounded to
// bf16.
template <int kRows, int kCols, int kPitch, int kBands>
__device__ __forceinline__ void mix_rows(const float (&weights)[kBands][kRows / 8][4], const bf16* rows,
                                         float (&sums)[kBands][kCols / 8][4]) {
    const int lane = static_cast<int>(threadIdx.x % kWarp);
    const bf16* const row = rows + lane % 16 * kPitch + lane / 16 * 8;
    WINDLASS_UNROLL
    for (int k = 0; k < kRows; k += 16) {
        uint32_t a[kBands][4];
        WINDLASS_UNROLL
        for (int band = 0; band < kBands; ++band) {
            const float(&low)[4] = weights[band][k / 8], (&high)[4] = weights[band][k / 8 + 1];
            a[band][0] = pack_pair(low[0], low[1]);
            a[band][1] = pack_pair(low[2], low[3]);
            a[band][2] = pack_pair(high[0], high[1]);
            a[band][3] = pack_pair(high[2], high[3]);
        }
        WINDLASS_UNROLL
        for (int n = 0; n < kCols; n += 16) {
            uint32_t b[4];
            load_matrices_transposed(b, row + k * kPitch + n);
            WINDLASS_UNROLL
            for (int band = 0; band < kBands; ++band) {
                multiply_add(sums[band][n / 8], a[band], b[0], b[1]);
                multiply_add(sums[band][n / 8 + 1], a[band], b[2], b[3]);
            }
        }
    }
}

// A tile holds rows that are not seen, of weight 0, and 0 times NaN is NaN. So where that can be, numbers that are
// infinite or NaN are taken out of the tile (clear_faults), and go where there is a weight for them (spread_faults).

// Zeros in place of such numbers of a tile; what lies between its rows says of each whether it had some. By the whole
// block, with a barrier before and after it.
template <int kSize, int kRows>
__device__ __forceinline__ void clear_faults(bf16* tile) {
    constexpr int kSharers = kMmaThreads / kRows, kWords = kSize / 2;  // threads of a row
    const int row = static_cast<int>(threadIdx.x) / kSharers, sharer = static_cast<int>(threadIdx.x) % kSharers;
    auto* const words = reinterpret_cast<uint32_t*>(tile + row * mma_pitch(kSize));
    uint32_t faults = 0;
    for (int i = sharer; i < kWords; i += kSharers) {
        const uint32_t pair = words[i], found = faults_of(pair);
        if (found != 0) words[i] = pair & ~(found * 0xffffu);
        faults |= found;
    }
    for (int apart = 1; apart < kSharers; apart *= 2) faults |= __shfl_xor_sync(0xffffffffu, faults, apart);
    if (sharer == 0) words[kWords] = faults;
}

// NaN in place of the sums of each row that has a weight for a row of the tile which had such numbers.
template <int kSize, int kRows, int kBands, int kCount>
__device__ __forceinline__ void spread_faults(const float (&weights)[kBands][kRows / 8][4], const bf16* tile,
                                              float (&sums)[kBands][kCount][4]) {
    const auto* const words =
        reinterpret_cast<const uint32_t*>(tile + threadIdx.x % 4 * 2 * mma_pitch(kSize)) + kSize / 2;
    uint32_t hit = 0;  // a bit for each of the lane's rows
    WINDLASS_UNROLL
    for (int n = 0; n < kRows / 8; ++n) WINDLASS_UNROLL
    for (int i = 0; i < 4; ++i) {
        const bool had_faults = words[(n * 8 + i % 2) * mma_pitch(kSize) / 2] != 0;
        WINDLASS_UNROLL
        for (int band = 0; band < kBands; ++band)
            if (had_faults && weights[band][n][i] != 0.0f) hit |= 1u << (2 * band + i / 2);
    }
    if (__ballot_sync(0xffffffffu, hit != 0) == 0) return;
    for (int apart = 1; apart <= 2; ++apart) hit |= __shfl_xor_sync(0xffffffffu, hit, apart);
    WINDLASS_UNROLL
    for (int band = 0; band < kBands; ++band) WINDLASS_UNROLL
    for (int n = 0; n < kCount; ++n) WINDLASS_UNROLL
    for (int i = 0; i < 4; ++i)
        if ((hit >> (2 * band + i / 2) & 1) != 0) sums[band][n][i] = NAN;
}

template <int kBands, int kCount>
__device__ __forceinline__ void clear_sums(float (&sums)[kBands][kCount][4]) {
    WINDLASS_UNROLL
    for (int band = 0; band < kBands; ++band) WINDLASS_UNROLL
    for (int n = 0; n < kCount; ++n) WINDLASS_UNROLL
    for (int i = 0; i < 4; ++i) sums[band][n][i] = 0;
}

// factor * a lane's sums of its row i of a band, into a value, whose head has `columns` more from col on.
template <int kCount>
__device__ __forceinline__ void write_sums(const CudaValue& value, int64_t row, int64_t col, int columns, int i,
                                           float factor, bool aligned, const float (&sums)[kCount][4]) {
    if (value.data == nullptr) return;
    WINDLASS_UNROLL
    for (int n = 0; n < kCount; ++n) {
        if (n * 8 >= columns) break;
        const float x = factor * sums[n][2 * i], y = factor * sums[n][2 * i + 1];
        if (aligned && !value.adds) {
            bf16* const to = static_cast<bf16*>(value.data) + row * value.stride + col + n * 8;
            *reinterpret_cast<uint32_t*>(to) = pack_pair(x, y);
        } else {
            write<bf16>(value, row, col + n * 8, x);
            if (n * 8 + 1 < columns) write<bf16>(value, row, col + n * 8 + 1, y);
        }
    }
}

// Works on tiles 0 to count - 1: take(tile, stage) where start(tile, stage) has begun to load it. With two stages the
// next tile is on its way meanwhile.
template <int kStages, typename Start, typename Take>
__device__ __forceinline__ void stream_tiles(int count, Start start, Take take) {
    if (count > 0) start(0, 0);
    end_copy_group();
    for (int tile = 0; tile < count; ++tile) {
        if (kStages == 2) {
            if (tile + 1 < count) start(tile + 1, (tile + 1) % 2);
            end_copy_group();
        }
        wait_for_copies<kStages - 1>();
        __syncthreads();
        take(tile, tile % kStages);
        __syncthreads();
        if (kStages == 1) {
            if (tile + 1 < count) start(tile + 1, 0);
            end_copy_group();
        }
    }
}

// Whether all heads of all rows can be copied 16 bytes at a time.
inline bool is_copied_whole(const CudaValue& value, int head_size) {
    return reinterpret_cast<uintptr_t>(value.data) % 16 == 0 && value.stride % 8 == 0 && head_size % 8 == 0;
}
inline bool is_copied_whole(const AttentionHeadsCuda& heads, int head_size) {
    return is_copied_whole(heads.q, head_size) && is_copied_whole(heads.k, head_size) &&
           is_copied_whole(heads.v, head_size);
}

// Products become scores under the softcap c: c tanh(scale * product / c).
template <int kBands, int kCount>
__device__ __forceinline__ void cap_products(const AttentionArgs& args, float (&products)[kBands][kCount][4]) {
    const float scale = args.scale / args.softcap;
    WINDLASS_UNROLL
    for (int band = 0; band < kBands; ++band) WINDLASS_UNROLL
    for (int n = 0; n < kCount; ++n) WINDLASS_UNROLL
    for (int i = 0; i < 4; ++i) products[band][n][i] = args.softcap * tanh_quick(products[band][n][i] * scale);
}

// Calls launch.template operator()<D, kCapped>() for the kernels on tensor cores that take a head; false: there are
// none.
template <typename Launch>
bool by_mma_size(const AttentionArgs& args, Launch launch) {
    const auto run = [&]<int kSize>() {
        if constexpr (kSize >= 128)
            by_softcap(args, [&]<bool kCapped>() { launch.template operator()<kSize, kCapped>(); });
        else
            launch.template operator()<kSize, false>();
        return true;
    };
    switch (tensor_core_size(args)) {
        case 64:
            return run.template operator()<64>();
        case 80:
            return run.template operator()<80>();
        case 96:
            return run.template operator()<96>();
        case 128:
            return run.template operator()<128>();
        case 256:
            return run.template operator()<256>();
        default:
            return false;
    }
}

}  // namespace windlass
