// adamw_vector.h: vectors of 32-bit numbers, and what they are widened from and narrowed to.
//
// For sources compiled per instruction set only (*_isa.cpp): everything has internal linkage in their namespace.
// Arithmetic is by the operators; here is what has none, or what a compiler makes many instructions of.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "base/vector_register.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

typedef float Floats __attribute__((vector_size(kVectorBytes)));
typedef uint32_t Words __attribute__((vector_size(kVectorBytes)));
typedef int32_t Ints __attribute__((vector_size(kVectorBytes)));
typedef uint16_t Shorts __attribute__((vector_size(kVectorBytes)));
typedef uint8_t Bytes __attribute__((vector_size(kVectorBytes)));

template <typename To, typename From>
[[gnu::always_inline]] inline To as(From x) {
    static_assert(sizeof(To) == sizeof(From));
    return __builtin_bit_cast(To, x);
}
template <typename V>
[[gnu::always_inline]] inline V load(const void* from) {
    V x;
    __builtin_memcpy(&x, from, sizeof x);
    return x;
}
template <typename V>
[[gnu::always_inline]] inline void store(void* to, V x) {
    __builtin_memcpy(to, &x, sizeof x);
}

// A pair is 2 kLanes elements: one vector of 16-bit numbers, in their order, or two of 32-bit ones, in the order in
// which the instruction set takes 16 bits apart and packs them again without crossing lanes of 128 bits more than it
// must.
struct Pair {
    Words a, b;
};

#if defined(__AVX512F__)
// In order. With masks of zeros where there are such forms: g++ 12 warns of the others.
typedef __m512i Raw;
[[gnu::always_inline]] inline Floats root(Floats x) {
    return as<Floats>(_mm512_maskz_sqrt_ps(0xffff, as<__m512>(x)));
}
[[gnu::always_inline]] inline Words rotate8(Words x) {
    return x << 8 | x >> 24;
}
[[gnu::always_inline]] inline Pair load_pair(const void* from) {
    return {load<Words>(from), load<Words>(static_cast<const char*>(from) + kVectorBytes)};
}
[[gnu::always_inline]] inline Shorts widen(const uint8_t* from) {
    return as<Shorts>(_mm512_cvtepu8_epi16(load<__m256i>(from)));
}
// 16-bit numbers as the upper halves of words whose lower halves are those of `low`.
[[gnu::always_inline]] inline Pair interleave(Shorts low, Shorts high) {
    constexpr Shorts kFirst = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                               8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    return {as<Words>(_mm512_permutex2var_epi16(as<Raw>(low), as<Raw>(kFirst), as<Raw>(high))),
            as<Words>(_mm512_permutex2var_epi16(as<Raw>(low), as<Raw>(kFirst + 16), as<Raw>(high)))};
}
constexpr Shorts kEven = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                          32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
[[gnu::always_inline]] inline Shorts low_halves(Pair x) {
    return as<Shorts>(_mm512_permutex2var_epi16(as<Raw>(x.a), as<Raw>(kEven), as<Raw>(x.b)));
}
[[gnu::always_inline]] inline Shorts high_halves(Pair x) {
    return as<Shorts>(_mm512_permutex2var_epi16(as<Raw>(x.a), as<Raw>(kEven + 1), as<Raw>(x.b)));
}
// Pairs to 16 bits and two of those to bytes: signed numbers to signed ones, and these to unsigned or to signed ones,
// saturating. in_order puts the bytes in the order of memory.
[[gnu::always_inline]] inline Shorts narrow(Pair x) {
    return as<Shorts>(_mm512_packs_epi32(as<Raw>(x.a), as<Raw>(x.b)));
}
[[gnu::always_inline]] inline Bytes in_order(Bytes x) {
    constexpr Words kOrder = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    return as<Bytes>(_mm512_maskz_permutexvar_epi32(0xffff, as<Raw>(kOrder), as<Raw>(x)));
}
[[gnu::always_inline]] inline Bytes narrow(Shorts a, Shorts b) {
    return as<Bytes>(_mm512_packus_epi16(as<Raw>(a), as<Raw>(b)));
}
[[gnu::always_inline]] inline Bytes narrow_signed(Shorts a, Shorts b) {
    return as<Bytes>(_mm512_packs_epi16(as<Raw>(a), as<Raw>(b)));
}
#elif defined(__AVX2__)
// Elements 0 to 3 and 8 to 11, then the others.
typedef __m256i Raw;
[[gnu::always_inline]] inline Floats root(Floats x) {
    return as<Floats>(_mm256_sqrt_ps(as<__m256>(x)));
}
[[gnu::always_inline]] inline Words rotate8(Words x) {
    constexpr Bytes kTurned = {3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14,
                               3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14};
    return as<Words>(_mm256_shuffle_epi8(as<Raw>(x), as<Raw>(kTurned)));
}
[[gnu::always_inline]] inline Pair load_pair(const void* from) {
    const char* at = static_cast<const char*>(from);
    const auto both = [&](int first) {
        const __m256i low = _mm256_castsi128_si256(load<__m128i>(at + first));
        return as<Words>(_mm256_inserti128_si256(low, load<__m128i>(at + first + 32), 1));
    };
    return {both(0), both(16)};
}
[[gnu::always_inline]] inline Shorts widen(const uint8_t* from) {
    return as<Shorts>(_mm256_cvtepu8_epi16(load<__m128i>(from)));
}
[[gnu::always_inline]] inline Pair interleave(Shorts low, Shorts high) {
    return {as<Words>(_mm256_unpacklo_epi16(as<Raw>(low), as<Raw>(high))),
            as<Words>(_mm256_unpackhi_epi16(as<Raw>(low), as<Raw>(high)))};
}
[[gnu::always_inline]] inline Shorts low_halves(Pair x) {
    const Raw zero = _mm256_setzero_si256();
    return as<Shorts>(_mm256_packus_epi32(_mm256_blend_epi16(as<Raw>(x.a), zero, 0xaa),
                                          _mm256_blend_epi16(as<Raw>(x.b), zero, 0xaa)));
}
[[gnu::always_inline]] inline Shorts high_halves(Pair x) {
    return as<Shorts>(_mm256_packus_epi32(as<Raw>(x.a >> 16), as<Raw>(x.b >> 16)));
}
[[gnu::always_inline]] inline Shorts narrow(Pair x) {
    return as<Shorts>(_mm256_packs_epi32(as<Raw>(x.a), as<Raw>(x.b)));
}
[[gnu::always_inline]] inline Bytes in_order(Bytes x) {
    return as<Bytes>(_mm256_permute4x64_epi64(as<Raw>(x), _MM_SHUFFLE(3, 1, 2, 0)));
}
[[gnu::always_inline]] inline Bytes narrow(Shorts a, Shorts b) {
    return as<Bytes>(_mm256_packus_epi16(as<Raw>(a), as<Raw>(b)));
}
[[gnu::always_inline]] inline Bytes narrow_signed(Shorts a, Shorts b) {
    return as<Bytes>(_mm256_packs_epi16(as<Raw>(a), as<Raw>(b)));
}
#else
// In order.
typedef __m128i Raw;
[[gnu::always_inline]] inline Floats root(Floats x) {
    return as<Floats>(_mm_sqrt_ps(as<__m128>(x)));
}
[[gnu::always_inline]] inline Words rotate8(Words x) {
    return x << 8 | x >> 24;
}
[[gnu::always_inline]] inline Pair load_pair(const void* from) {
    return {load<Words>(from), load<Words>(static_cast<const char*>(from) + kVectorBytes)};
}
[[gnu::always_inline]] inline Shorts widen(const uint8_t* from) {
    return as<Shorts>(_mm_unpacklo_epi8(_mm_loadu_si64(from), _mm_setzero_si128()));
}
[[gnu::always_inline]] inline Pair interleave(Shorts low, Shorts high) {
    return {as<Words>(_mm_unpacklo_epi16(as<Raw>(low), as<Raw>(high))),
            as<Words>(_mm_unpackhi_epi16(as<Raw>(low), as<Raw>(high)))};
}
[[gnu::always_inline]] inline Shorts narrow(Pair x) {
    return as<Shorts>(_mm_packs_epi32(as<Raw>(x.a), as<Raw>(x.b)));
}
[[gnu::always_inline]] inline Shorts high_halves(Pair x) {
    return narrow({as<Words>(as<Ints>(x.a) >> 16), as<Words>(as<Ints>(x.b) >> 16)});
}
[[gnu::always_inline]] inline Shorts low_halves(Pair x) {
    return high_halves({x.a << 16, x.b << 16});
}
[[gnu::always_inline]] inline Bytes in_order(Bytes x) {
    return x;
}
[[gnu::always_inline]] inline Bytes narrow(Shorts a, Shorts b) {
    return as<Bytes>(_mm_packus_epi16(as<Raw>(a), as<Raw>(b)));
}
[[gnu::always_inline]] inline Bytes narrow_signed(Shorts a, Shorts b) {
    return as<Bytes>(_mm_packs_epi16(as<Raw>(a), as<Raw>(b)));
}
#endif

}  // namespace
}  // namespace WINDLASS_ISA
}  // namespace windlass
