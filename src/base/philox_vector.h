// philox_vector.h: the words of base/rng.h for a run of elements, many counters at a time.
//
// For sources compiled per instruction set only (*_isa.cpp): everything has internal linkage in their namespace.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "base/vector_register.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

typedef uint64_t Wide __attribute__((vector_size(kVectorBytes)));

// Philox4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11, section 3.3), with its numbers of a
// round kept in the low halves of 64-bit lanes: a product of two low halves then needs no shuffles, and what the high
// halves hold does not matter. Only this product has no operator; the rest is plain arithmetic.
#if defined(__AVX512F__)
[[gnu::always_inline]] inline Wide low_product(Wide a, Wide b) {
    return reinterpret_cast<Wide>(
        _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
// In each 128 bits, the low halves of a and after them those of b.
[[gnu::always_inline]] inline Wide low_halves(Wide a, Wide b) {
    return reinterpret_cast<Wide>(
        _mm512_shuffle_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), _MM_SHUFFLE(2, 0, 2, 0)));
}
[[gnu::always_inline]] inline Wide high_halves(Wide a, Wide b) {
    return reinterpret_cast<Wide>(
        _mm512_shuffle_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), _MM_SHUFFLE(3, 1, 3, 1)));
}
constexpr Wide kLane = {0, 1, 2, 3, 4, 5, 6, 7}, kHalvesApart = {0, 4, 1, 5, 2, 6, 3, 7};
constexpr int kChains = 4;  // vectors of counters side by side: a round waits for its products, several do not
#elif defined(__AVX2__)
[[gnu::always_inline]] inline Wide low_product(Wide a, Wide b) {
    return reinterpret_cast<Wide>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}
[[gnu::always_inline]] inline Wide low_halves(Wide a, Wide b) {
    return reinterpret_cast<Wide>(
        _mm256_shuffle_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), _MM_SHUFFLE(2, 0, 2, 0)));
}
[[gnu::always_inline]] inline Wide high_halves(Wide a, Wide b) {
    return reinterpret_cast<Wide>(
        _mm256_shuffle_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), _MM_SHUFFLE(3, 1, 3, 1)));
}
constexpr Wide kLane = {0, 1, 2, 3}, kHalvesApart = {0, 2, 1, 3};
constexpr int kChains = 2;
#else
[[gnu::always_inline]] inline Wide low_product(Wide a, Wide b) {
    return reinterpret_cast<Wide>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
}
[[gnu::always_inline]] inline Wide low_halves(Wide a, Wide b) {
    return reinterpret_cast<Wide>(
        _mm_shuffle_ps(reinterpret_cast<__m128>(a), reinterpret_cast<__m128>(b), _MM_SHUFFLE(2, 0, 2, 0)));
}
[[gnu::always_inline]] inline Wide high_halves(Wide a, Wide b) {
    return reinterpret_cast<Wide>(
        _mm_shuffle_ps(reinterpret_cast<__m128>(a), reinterpret_cast<__m128>(b), _MM_SHUFFLE(3, 1, 3, 1)));
}
constexpr Wide kLane = {0, 1}, kHalvesApart = {0, 1};
constexpr int kChains = 2;
#endif
constexpr int kWideLanes = sizeof(Wide) / sizeof(uint64_t);

constexpr int kPhiloxRounds = 10;
constexpr int kPhiloxRun = 128;  // words of a run, from a quarter as many counters

// The keys of all rounds, in every lane.
struct PhiloxKeys {
    Wide first[kPhiloxRounds], second[kPhiloxRounds];

    explicit PhiloxKeys(uint64_t key) {
        uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
        for (int round = 0; round < kPhiloxRounds; ++round) {
            first[round] = Wide{} + key0;
            second[round] = Wide{} + key1;
            key0 += 0x9E3779B9;
            key1 += 0xBB67AE85;
        }
    }
};

// Everything of a counter but its index.
struct PhiloxCounter {
    uint64_t block = 0;
    uint32_t stream = 0, step = 0, direction = 0;
};

// Calls store(counter, w0w1, w2w3) for every kWideLanes counters of a run, which starts at block + counter: `lanes`
// says which lane has which counter. For two neighbours a, b, each 128 bits hold a0 b0 a1 b1, a2 b2 a3 b3.
template <typename Store>
[[gnu::always_inline]] inline void philox_vectors(const PhiloxKeys& keys, const PhiloxCounter& at, Wide lanes,
                                                  Store store) {
    const Wide product0 = Wide{} + 0xD2511F53, product1 = Wide{} + 0xCD9E8D57;
    for (int counter = 0; counter < kPhiloxRun / 4; counter += kChains * kWideLanes) {
        Wide c0[kChains], c1[kChains], c2[kChains], c3[kChains];
        for (int chain = 0; chain < kChains; ++chain) {
            const Wide index = at.block + static_cast<uint64_t>(counter + chain * kWideLanes) + lanes;
            c0[chain] = index;
            c1[chain] = index >> 32 | static_cast<uint64_t>(at.stream) << 16;
            c2[chain] = Wide{} + at.step;
            c3[chain] = Wide{} + at.direction;
        }
#pragma GCC unroll 10
        for (int round = 0; round < kPhiloxRounds; ++round) {
#pragma GCC unroll 4
            for (int chain = 0; chain < kChains; ++chain) {
                const Wide p0 = low_product(c0[chain], product0), p1 = low_product(c2[chain], product1);
                c0[chain] = p1 >> 32 ^ c1[chain] ^ keys.first[round];
                c2[chain] = p0 >> 32 ^ c3[chain] ^ keys.second[round];
                c1[chain] = p1;
                c3[chain] = p0;
            }
        }
        for (int chain = 0; chain < kChains; ++chain)
            store(counter + chain * kWideLanes, low_halves(c0[chain], c1[chain]), low_halves(c2[chain], c3[chain]));
    }
}

// The words of philox(key, {block + c, stream, step, direction}) for c below kPhiloxRun / 4, in the order in which
// vectors of counters leave them: word w of counter c is out[64 (w / 2) + 4 (c / 2) + 2 (w mod 2) + c mod 2].
[[gnu::always_inline]] inline void philox_mixed(const PhiloxKeys& keys, const PhiloxCounter& at,
                                                uint32_t* __restrict out) {
    philox_vectors(keys, at, kLane, [out](int counter, Wide first, Wide second) {
        __builtin_memcpy(out + 2 * counter, &first, sizeof first);
        __builtin_memcpy(out + 2 * counter + kPhiloxRun / 2, &second, sizeof second);
    });
}

// For i below kPhiloxRun: out[i] = word i % 4 of philox(key, {block + i / 4, stream, step, direction}). Neighbours in a
// vector are counters half a vector apart, so that parting them leaves each half in order.
[[gnu::always_inline]] inline void philox_run(const PhiloxKeys& keys, const PhiloxCounter& at,
                                              uint32_t* __restrict out) {
    philox_vectors(keys, at, kHalvesApart, [out](int counter, Wide first, Wide second) {
        const Wide low = low_halves(first, second), high = high_halves(first, second);
        __builtin_memcpy(out + 4 * counter, &low, sizeof low);
        __builtin_memcpy(out + 4 * counter + 2 * kWideLanes, &high, sizeof high);
    });
}

}  // namespace
}  // namespace WINDLASS_ISA
}  // namespace windlass
