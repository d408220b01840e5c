// gaussian_vector.h: random words to standard normal numbers, a register of them at a time.
//
// For sources compiled per instruction set only (*_isa.cpp): everything has internal linkage in their namespace. Only
// + - * sqrt, each rounded once, and integers: the same bits on every instruction set, and on any device that rounds
// so. Without fused multiply-adds on purpose: a processor that has none would need a call for each, and those that have
// them spend most of the time on the random words anyway.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "base/vector_register.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

typedef float Floats __attribute__((vector_size(kVectorBytes), may_alias));
typedef int32_t Ints __attribute__((vector_size(kVectorBytes), may_alias));

// Only these need names of instructions: the square root, and parting two registers of pairs and joining them again,
// both within blocks of four lanes: ([a0 a1 a2 a3], [b0 b1 b2 b3]) <-> ([a0 a2 b0 b2], [a1 a3 b1 b3]).
#if defined(__AVX512F__)
[[gnu::always_inline]] inline Floats root_of(Floats x) {
    return _mm512_maskz_sqrt_ps(0xffff, x);
}
[[gnu::always_inline]] inline Ints evens_of(Ints a, Ints b) {
    return reinterpret_cast<Ints>(_mm512_maskz_shuffle_ps(0xffff, reinterpret_cast<__m512>(a),
                                                          reinterpret_cast<__m512>(b), _MM_SHUFFLE(2, 0, 2, 0)));
}
[[gnu::always_inline]] inline Ints odds_of(Ints a, Ints b) {
    return reinterpret_cast<Ints>(_mm512_maskz_shuffle_ps(0xffff, reinterpret_cast<__m512>(a),
                                                          reinterpret_cast<__m512>(b), _MM_SHUFFLE(3, 1, 3, 1)));
}
[[gnu::always_inline]] inline Floats first_of(Floats evens, Floats odds) {
    return _mm512_maskz_unpacklo_ps(0xffff, evens, odds);
}
[[gnu::always_inline]] inline Floats second_of(Floats evens, Floats odds) {
    return _mm512_maskz_unpackhi_ps(0xffff, evens, odds);
}
#elif defined(__AVX2__)
[[gnu::always_inline]] inline Floats root_of(Floats x) {
    return _mm256_sqrt_ps(x);
}
[[gnu::always_inline]] inline Ints evens_of(Ints a, Ints b) {
    return reinterpret_cast<Ints>(
        _mm256_shuffle_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), _MM_SHUFFLE(2, 0, 2, 0)));
}
[[gnu::always_inline]] inline Ints odds_of(Ints a, Ints b) {
    return reinterpret_cast<Ints>(
        _mm256_shuffle_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), _MM_SHUFFLE(3, 1, 3, 1)));
}
[[gnu::always_inline]] inline Floats first_of(Floats evens, Floats odds) {
    return _mm256_unpacklo_ps(evens, odds);
}
[[gnu::always_inline]] inline Floats second_of(Floats evens, Floats odds) {
    return _mm256_unpackhi_ps(evens, odds);
}
#else
[[gnu::always_inline]] inline Floats root_of(Floats x) {
    return _mm_sqrt_ps(x);
}
[[gnu::always_inline]] inline Ints evens_of(Ints a, Ints b) {
    return reinterpret_cast<Ints>(
        _mm_shuffle_ps(reinterpret_cast<__m128>(a), reinterpret_cast<__m128>(b), _MM_SHUFFLE(2, 0, 2, 0)));
}
[[gnu::always_inline]] inline Ints odds_of(Ints a, Ints b) {
    return reinterpret_cast<Ints>(
        _mm_shuffle_ps(reinterpret_cast<__m128>(a), reinterpret_cast<__m128>(b), _MM_SHUFFLE(3, 1, 3, 1)));
}
[[gnu::always_inline]] inline Floats first_of(Floats evens, Floats odds) {
    return _mm_unpacklo_ps(evens, odds);
}
[[gnu::always_inline]] inline Floats second_of(Floats evens, Floats odds) {
    return _mm_unpackhi_ps(evens, odds);
}
#endif

// sqrt(-2 ln u) for u = i 2^-31, i the odd number of the word's upper 30 bits and a one: between 0 and 6.56.
// i = 2^e m with sqrt(1/2) <= m < sqrt(2), so that -2 ln u = (31 - e) 2 ln 2 - 2 ln m; with t = m - 1 the latter is
// t R(t), where R is the polynomial of degree 7 whose largest relative error over that range is least: 1.7e-7.
[[gnu::always_inline]] inline Floats radius_of(Ints word) {
    typedef uint32_t Words __attribute__((vector_size(sizeof(Ints))));
    constexpr int32_t kRootHalf = 0x3f3504f3;  // bits of sqrt(1/2)
    const Ints odd = reinterpret_cast<Ints>(reinterpret_cast<Words>(word) >> 1) | 1;
    const Ints bits = reinterpret_cast<Ints>(__builtin_convertvector(odd, Floats)) - kRootHalf;
    const Floats halvings = __builtin_convertvector(31 - (bits >> 23), Floats);
    const Floats t = reinterpret_cast<Floats>((bits & 0x7fffff) + kRootHalf) - 1.0f;
    const Floats square = t * t;
    const Floats low = (-0x1.fffffep0f + 0x1.00007ap0f * t) + (-0x1.5559dcp-1f + 0x1.ff623cp-2f * t) * square;
    const Floats high = (-0x1.978e2ep-2f + 0x1.614c08p-2f * t) + (-0x1.4c3d08p-2f + 0x1.9dfa76p-3f * t) * square;
    return root_of(halvings * 0x1.62e43p0f + t * (low + high * (square * square)));
}

// The two coordinates of a point of the unit circle. x in [-1, 1] from the word's lower 30 bits is the angle between it
// and an axis in eighths of a turn; the upper two bits choose the axis. sin(pi/4 x) and cos(pi/4 x) are polynomials of
// least error as above: 3.3e-9 and 3.3e-8.
[[gnu::always_inline]] inline void circle_of(Ints word, Floats& first, Floats& second) {
    constexpr int32_t kSign = INT32_MIN;
    const Floats x = __builtin_convertvector(word << 2, Floats) * 0x1p-31f;
    const Floats square = x * x;
    const Floats across = x * ((0x1.921fb6p-1f - 0x1.4abbbap-4f * square) +
                               (0x1.465e92p-9f - 0x1.2d9302p-15f * square) * (square * square));
    const Floats along =
        (0x1.fffffep-1f - 0x1.3bd38cp-2f * square) + (0x1.03ae64p-6f - 0x1.4e35dap-12f * square) * (square * square);
    const Floats axis = reinterpret_cast<Floats>(reinterpret_cast<Ints>(along) ^ (word << 1 & kSign));
    first = word < 0 ? across : axis;
    second = word < 0 ? axis : across;
}

// 2 kLanes words, from four words of each of several counters, to as many numbers: words 2j and 2j + 1 of a
// counter give elements 2j and 2j + 1 (Box and Muller, "A note on the generation of random normal deviates", 1958).
[[gnu::always_inline]] inline void gaussian_of(const uint32_t* words, Floats& low, Floats& high) {
    const Ints a = *reinterpret_cast<const Ints*>(words), b = *reinterpret_cast<const Ints*>(words + kLanes);
    const Floats radius = radius_of(evens_of(a, b));
    Floats first, second;
    circle_of(odds_of(a, b), first, second);
    low = first_of(radius * first, radius * second);
    high = second_of(radius * first, radius * second);
}

}  // namespace
}  // namespace WINDLASS_ISA
}  // namespace windlass
