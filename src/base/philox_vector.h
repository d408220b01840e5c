// philox_vector.h: the words of base/rng.h for a run of elements, many counters at a time.
//
// For sources compiled per instruction set only (*_isa.cpp): everything has internal linkage in their namespace.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace windlass {
namespace WINDLASS_ISA {
namespace {

// Philox4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11, section 3.3), with its numbers of a
// round kept in the low halves of 64-bit lanes: a product of two low halves then needs no shuffles, and what the high
// halves hold does not matter. Only this product has no operator; the rest is plain arithmetic.
#if defined(__AVX512F__)
typedef uint64_t Wide __attribute__((vector_size(64)));
[[gnu::always_inline]] inline Wide low_product(Wide a, Wide b) {
    return reinterpret_cast<Wide>(
        _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
constexpr Wide kLane = {0, 1, 2, 3, 4, 5, 6, 7};
constexpr int kChains = 4;  // vectors of counters side by side: a round waits for its products, several do not
#elif defined(__AVX2__)
typedef uint64_t Wide __attribute__((vector_size(32)));
[[gnu::always_inline]] inline Wide low_product(Wide a, Wide b) {
    return reinterpret_cast<Wide>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}
constexpr Wide kLane = {0, 1, 2, 3};
constexpr int kChains = 2;
#else
typedef uint64_t Wide __attribute__((vector_size(16)));
[[gnu::always_inline]] inline Wide low_product(Wide a, Wide b) {
    return reinterpret_cast<Wide>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
}
constexpr Wide kLane = {0, 1};
constexpr int kChains = 2;
#endif
constexpr int kWideLanes = sizeof(Wide) / sizeof(uint64_t);

constexpr int kPhiloxRun = 128;  // elements of philox_run

// For i below kPhiloxRun: out[i] = word i % 4 of philox(key, {block + i / 4, stream, step, direction}).
[[gnu::always_inline]] inline void philox_run(uint64_t key, uint64_t block, uint32_t stream, uint32_t step,
                                              uint32_t direction, uint32_t* __restrict out) {
    constexpr uint32_t kKeyStep0 = 0x9E3779B9, kKeyStep1 = 0xBB67AE85;
    constexpr uint64_t kLow = 0xFFFFFFFF;
    const Wide product0 = Wide{} + 0xD2511F53, product1 = Wide{} + 0xCD9E8D57;
    alignas(64) uint64_t first[kPhiloxRun / 4], second[kPhiloxRun / 4];  // words 0 and 1, words 2 and 3
    for (int counter = 0; counter < kPhiloxRun / 4; counter += kChains * kWideLanes) {
        Wide c0[kChains], c1[kChains], c2[kChains], c3[kChains];
        for (int chain = 0; chain < kChains; ++chain) {
            const Wide index = block + static_cast<uint64_t>(counter + chain * kWideLanes) + kLane;
            c0[chain] = index;
            c1[chain] = index >> 32 | static_cast<uint64_t>(stream) << 16;
            c2[chain] = Wide{} + step;
            c3[chain] = Wide{} + direction;
        }
        uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
#pragma GCC unroll 10
        for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 4
            for (int chain = 0; chain < kChains; ++chain) {
                const Wide p0 = low_product(c0[chain], product0), p1 = low_product(c2[chain], product1);
                c0[chain] = p1 >> 32 ^ c1[chain] ^ key0;
                c2[chain] = p0 >> 32 ^ c3[chain] ^ key1;
                c1[chain] = p1;
                c3[chain] = p0;
            }
            key0 += kKeyStep0;
            key1 += kKeyStep1;
        }
        for (int chain = 0; chain < kChains; ++chain) {
            const int at = counter + chain * kWideLanes;
            *reinterpret_cast<Wide*>(first + at) = (c0[chain] & kLow) | c1[chain] << 32;
            *reinterpret_cast<Wide*>(second + at) = (c2[chain] & kLow) | c3[chain] << 32;
        }
    }
    for (int counter = 0; counter < kPhiloxRun / 4; ++counter) {
        __builtin_memcpy(out + counter * 4, first + counter, 8);
        __builtin_memcpy(out + counter * 4 + 2, second + counter, 8);
    }
}

}  // namespace
}  // namespace WINDLASS_ISA
}  // namespace windlass
