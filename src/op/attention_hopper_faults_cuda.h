// attention_hopper_faults_cuda.h: what keeps a NaN of one token from the rows that do not see it, in the kernels of
// attention for sm_90a. For .cu files alone.
//
// A tile holds rows that are not seen, of weight 0, and 0 times NaN is NaN. So where a query of the block does not see
// a key of the tile, the groups that multiply take infinities and NaNs out of the tile, and spread_faults() makes the
// rows NaN that have a weight for them. Which tiles are such the whole block decides: both groups read the same tile.
#pragma once

#include "op/attention_hopper_tiles_cuda.h"

namespace windlass {

inline constexpr int kFaultBarrier = 3;  // of the block: turns of the groups take 1 and 2
inline constexpr int kMultiplyingThreads = 2 * kWarpGroup;

// Of each row of a tile: 0, or it had such numbers.
template <typename Tile>
using HopperFaults = uint32_t[Tile::kRowCount];

// All threads that multiply come here, before clear_faults() and after it: of the tile they have read what comes before
// that, and they see what it leaves.
__device__ __forceinline__ void meet_for_faults() {
    wait_at(kFaultBarrier, kMultiplyingThreads);
}

// Zeros in place of infinities and NaNs. `faults`: of each row of the tile, whether it had some; null: not asked for.
template <typename Tile>
__device__ __forceinline__ void clear_faults(unsigned char* tile, uint32_t* faults) {
    constexpr int kSharers = 8, kWords = 4;  // threads of a row, and pairs of a part of 16 bytes
    const int thread = static_cast<int>(threadIdx.x) - kWarpGroup, sharer = thread % kSharers;
    WINDLASS_LOOP
    for (int row = thread / kSharers; row < Tile::kRowCount; row += kMultiplyingThreads / kSharers) {
        uint32_t found = 0;
        WINDLASS_LOOP
        for (int part = 0; part < Tile::kParts; ++part) {
            auto* const words = reinterpret_cast<uint32_t*>(tile + part * Tile::kPartBytes + row * 128 + sharer * 16);
            WINDLASS_UNROLL
            for (int i = 0; i < kWords; ++i) {
                const uint32_t pair = words[i], bad = faults_of(pair);
                if (bad != 0) words[i] = pair & ~(bad * 0xffffu);
                found |= bad;
            }
        }
        WINDLASS_UNROLL
        for (int apart = 1; apart < kSharers; apart *= 2) found |= __shfl_xor_sync(0xffffffffu, found, apart);
        if (sharer == 0 && faults != nullptr) faults[row] = found;
    }
    show_stores();
}

// NaN in place of the sums of each row that has a weight for a row of the tile which had such numbers; weights as a
// product's left factor.
template <int kSteps, int kCount>
__device__ __forceinline__ void spread_faults(const uint32_t (&weights)[kSteps][4], const uint32_t* faults,
                                              float (&sums)[kCount]) {
    constexpr uint32_t kLow = 0x7fff, kHigh = 0x7fff0000;  // of a pair, without signs
    const uint32_t* const mine = faults + HopperLane{}.column();
    uint32_t hit = 0;  // a bit for each of the lane's rows
    WINDLASS_UNROLL
    for (int k = 0; k < kSteps; ++k) WINDLASS_UNROLL
    for (int j = 0; j < 4; ++j) {
        const int column = 16 * k + j / 2 * 8;
        const uint32_t low = mine[column] != 0 ? kLow : 0, high = mine[column + 1] != 0 ? kHigh : 0;
        if ((weights[k][j] & (low | high)) != 0) hit |= 1u << j % 2;
    }
    if (__ballot_sync(0xffffffffu, hit != 0) == 0) return;
    WINDLASS_UNROLL
    for (int apart = 1; apart <= 2; ++apart) hit |= __shfl_xor_sync(0xffffffffu, hit, apart);
    WINDLASS_UNROLL
    for (int i = 0; i < kCount; ++i)
        if ((hit >> (i / 2 % 2) & 1) != 0) sums[i] = NAN;
}

// Of a change that a weight of 0 made of a NaN.
__device__ __forceinline__ float unless_unseen(float weight, float change) {
    return weight == 0.0f && isnan(change) ? 0.0f : change;
}

}  // namespace windlass
