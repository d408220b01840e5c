// attention_hopper_tiles_cuda.h: tiles, stages and products of the kernels of attention for sm_90a. For .cu files
// alone.
//
// Group 0 of a block's three warp groups loads, groups 1 and 2 multiply: each owns half of the block's rows, 16 a warp.
// A stage of shared memory is full when its bytes are there, and empty when all eight warps that multiply have left it.
#pragma once

#include "device/cuda/mma.h"
#include "device/cuda/wgmma.h"
#include "op/attention_hopper_cuda.h"
#include "op/attention_rows_cuda.h"

namespace windlass {

inline constexpr unsigned kHopperThreads = 3 * kWarpGroup, kMultiplyingWarps = 8;
inline constexpr int kHopperStages = 2;
// 24 + 2 x 240 registers are three times the 168 that a block of 384 threads is started with.
inline constexpr int kLoadingRegisters = 24, kMultiplyingRegisters = 240;
inline constexpr unsigned kTileAlignment = 1024;
inline constexpr unsigned kHopperSharedMax = 227 << 10;
inline constexpr float kLog2OfE = 1.44269504f;

// kRows rows of kColumns numbers: parts [kRows, 64], each row of 128 bytes as load_box() leaves it.
template <int kColumns, int kRows>
struct HopperTile {
    static constexpr int kRowCount = kRows;
    static constexpr int kParts = kColumns / kBoxColumns, kPartBytes = kRows * 128, kBytes = kParts * kPartBytes;
    static constexpr int kEightRows = 8 * 128;

    // As a factor: from a row and a column on, the numbers that are summed over lie along rows.
    __device__ __forceinline__ static uint64_t along_rows(const unsigned char* tile, int row, int column) {
        constexpr int kUnused = 16;  // a product takes 16 columns, which lie in one part
        const int place = column / kBoxColumns * kPartBytes + row * 128 + column % kBoxColumns * 2;
        return describe_factor(tile + place, kUnused, kEightRows);
    }
    // From a row on, rows are what is summed over.
    __device__ __forceinline__ static uint64_t across_rows(const unsigned char* tile, int row) {
        return describe_factor(tile + row * 128, kPartBytes, kEightRows);
    }
    // Of a head of a value: zeros after its last column.
    __device__ __forceinline__ static void load(unsigned char* tile, const TensorMap* map, int head, int token, int row,
                                                Barrier* full) {
        WINDLASS_UNROLL
        for (int part = 0; part < kParts; ++part)
            load_box(tile + part * kPartBytes, map, {part * kBoxColumns, head, token, row}, full);
    }
};

// The block's shared memory from the first aligned byte on.
__device__ inline unsigned char* hopper_shared() {
    unsigned char* const begin = shared_memory<unsigned char>();
    const uint32_t at = shared_address(begin);
    return begin + ((kTileAlignment - at % kTileAlignment) % kTileAlignment);
}
// Of tiles and facts of kBytes, then barriers.
constexpr unsigned hopper_shared_bytes(int bytes, int barriers) {
    return kTileAlignment + static_cast<unsigned>(bytes) + static_cast<unsigned>(barriers) * sizeof(Barrier);
}
// The grid of a kernel with these tiles.
template <typename Tiles>
CudaGrid hopper_grid(int64_t blocks) {
    return {.blocks = blocks, .threads = kHopperThreads, .shared_bytes = Tiles::kSharedBytes};
}

// A place in a ring of stages: the loading warp has one, and each that multiplies.
struct HopperRing {
    static constexpr int kBarriers = 2 * kHopperStages;
    Barrier *full, *empty;
    int stage = 0;
    unsigned parity = 0;

    __device__ explicit HopperRing(Barrier* barriers) : full(barriers), empty(barriers + kHopperStages) {}
    // `arrivals`: of those that fill a stage.
    __device__ void make(unsigned arrivals) const {
        for (int i = 0; i < kHopperStages; ++i) {
            make_barrier(full + i, arrivals);
            make_barrier(empty + i, kMultiplyingWarps);
        }
    }
    // The first round of stages is empty: the phase before the first counts as complete.
    __device__ __forceinline__ void wait_until_empty() const { wait_for(empty + stage, parity ^ 1); }
    __device__ __forceinline__ Barrier* fill(unsigned bytes) const {
        wait_until_empty();
        arrive_expecting(full + stage, bytes);
        return full + stage;
    }
    __device__ __forceinline__ void wait_until_full() const { wait_for(full + stage, parity); }
    // This warp has waited for what it reads of the stage.
    __device__ __forceinline__ void leave() {
        if (threadIdx.x % kWarp == 0) arrive(empty + stage);
        next();
    }
    __device__ __forceinline__ void next() {
        if (++stage == kHopperStages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// A multiplying thread's place: of its group's sums d, d[i] has row(i / 2 % 2) of the block's and column_of(i) of the
// tile's.
struct HopperLane {
    int group = static_cast<int>(threadIdx.x) / kWarpGroup - 1;
    int warp = static_cast<int>(threadIdx.x) % kWarpGroup / static_cast<int>(kWarp);
    int lane = static_cast<int>(threadIdx.x % kWarp);
    __device__ int first_row() const { return 64 * group; }  // of its group
    __device__ int row_of_group(int r) const { return 16 * warp + lane / 4 + 8 * r; }
    __device__ int row(int r) const { return first_row() + row_of_group(r); }
    __device__ int column() const { return 2 * (lane % 4); }
    __device__ int column_of(int i) const { return i / 4 * 8 + column() + i % 2; }
};

// Whether this block is to do `by_length` all tiles of the same length, or all tiles of a head; heads: of queries or
// keys.
__device__ inline AttentionPlace hopper_place(const AttentionHopperArgs& args, int heads, int tile, bool last_first) {
    const AttentionArgs& call = args.call;
    const int tiles = tiles_of(call.length, tile), block = static_cast<int>(blockIdx.x);
    const int all = heads * call.rows * call.directions;
    const int index = args.by_length ? block / all : block % tiles, rest = args.by_length ? block % all : block / tiles;
    return {rest / heads % call.rows, rest % heads, (last_first ? tiles - 1 - index : index) * tile,
            rest / heads / call.rows};
}

template <int kCount>
__device__ __forceinline__ void clear(float (&numbers)[kCount]) {
    WINDLASS_UNROLL
    for (int i = 0; i < kCount; ++i) numbers[i] = 0;
}

// d [64, rows of Other] (+)= rows of own from first_row on times rows of other, over the head's kSize columns
template <int kSize, typename Own, typename Other, int kCount>
__device__ __forceinline__ void multiply_tiles(float (&d)[kCount], const unsigned char* own, int first_row,
                                               const unsigned char* other, bool adds = false) {
    WINDLASS_UNROLL
    for (int k = 0; k < kSize; k += 16)
        multiply_shared<false>(d, Own::along_rows(own, first_row, k), Other::along_rows(other, 0, k), adds || k != 0);
}

// d [64, columns of Tile] += weights [64, rows of Tile] tile
template <typename Tile, int kCount, int kSteps>
__device__ __forceinline__ void mix_tile(float (&d)[kCount], const uint32_t (&weights)[kSteps][4],
                                         const unsigned char* tile) {
    WINDLASS_UNROLL
    for (int k = 0; k < kSteps; ++k)
        multiply_registers<true>(d, weights[k], Tile::across_rows(tile, 16 * k), /*adds=*/true);
}

// Sums as the left factor of the next product.
template <int kCount, int kSteps>
__device__ __forceinline__ void pack_weights(const float (&x)[kCount], uint32_t (&packed)[kSteps][4]) {
    static_assert(kCount == 8 * kSteps);
    WINDLASS_UNROLL
    for (int k = 0; k < kSteps; ++k) WINDLASS_UNROLL
    for (int j = 0; j < 4; ++j) packed[k][j] = pack_pair(x[8 * k + 2 * j], x[8 * k + 2 * j + 1]);
}

// factor * row r of a lane's sums, into a head's columns of a row of a value; kSize: of the kernel's heads, which may
// be larger.
template <int kSize, int kCount>
__device__ __forceinline__ void write_hopper(const CudaValue& value, int64_t row, int head, int head_size, int r,
                                             float factor, const float (&sums)[kCount]) {
    if (value.data == nullptr) return;
    bf16* const to = static_cast<bf16*>(value.data) + row * value.stride + head * head_size + HopperLane{}.column();
    WINDLASS_UNROLL
    for (int n = 0; n < kSize / 8; ++n) {
        if (8 * n >= head_size) break;
        float x = factor * sums[4 * n + 2 * r], y = factor * sums[4 * n + 2 * r + 1];
        if (value.adds) {
            x = widen(to[8 * n]) + x;
            y = widen(to[8 * n + 1]) + y;
        }
        *reinterpret_cast<uint32_t*>(to + 8 * n) = pack_pair(x, y);
    }
}

// Products become scores: under a softcap c they are c tanh(scale * product / c), and exponent_scale() is one.
template <bool kCapped, int kCount>
__device__ __forceinline__ void cap_scores(const AttentionArgs& args, float (&products)[kCount]) {
    if constexpr (kCapped) {
        const float scale = args.scale / args.softcap;
        WINDLASS_UNROLL
        for (int i = 0; i < kCount; ++i) products[i] = args.softcap * tanh_quick(products[i] * scale);
    }
}

// Calls launch.template operator()<kSize, kCapped>(): what is_taken() lets pass has one.
template <typename Launch>
void by_hopper_size(const AttentionArgs& args, Launch launch) {
    switch (tensor_core_size(args)) {
        case 64:
            return launch.template operator()<64, false>();
        case 80:
            return launch.template operator()<80, false>();
        case 96:
            return launch.template operator()<96, false>();
        case 128:
            return by_softcap(args, [&]<bool kCapped>() { launch.template operator()<128, kCapped>(); });
        default:
            return by_softcap(args, [&]<bool kCapped>() { launch.template operator()<256, kCapped>(); });
    }
}

}  // namespace windlass
