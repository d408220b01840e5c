// philox.h: the words of base/rng.h in kernels. For .cu files alone.
#pragma once

#include "device/cuda/kernel.h"

namespace windlass {

struct PhiloxWords {
    uint32_t words[4];
};

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11, section 3.3): philox(key, {block,
// stream, step, direction}).
__device__ inline PhiloxWords philox_words(uint64_t key, uint64_t block, uint32_t stream, uint32_t step,
                                           uint32_t direction) {
    uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32) | stream << 16;
    uint32_t c2 = step, c3 = direction;
    uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
        const uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        const uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ key0;
        c2 = high0 ^ c3 ^ key1;
        c1 = low1;
        c3 = low0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}

}  // namespace windlass
