// exp_vector.h: a register of floats as plain arithmetic, their exponential, and what softmaxes do with them.
//
// For sources compiled per instruction set only (*_isa.cpp): everything has internal linkage in their namespace.
// Products may contract into sums: bits of these ops may follow the instruction set, never the team's size. NaN stays
// NaN, so that a loss shows it.
#pragma once

#include <cstdint>

#include "base/vector_register.h"
#include "op/contraction.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

// Anywhere in memory, of any declared type.
typedef float Floats __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
typedef uint16_t Halves __attribute__((vector_size(kVectorBytes / 2), aligned(2), may_alias));

#if defined(__AVX512F__)
constexpr Ints kLaneIndex = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif defined(__AVX2__)
constexpr Ints kLaneIndex = {0, 1, 2, 3, 4, 5, 6, 7};
#else
constexpr Ints kLaneIndex = {0, 1, 2, 3};
#endif

[[gnu::always_inline]] inline Floats load(const float* from) {
    return *reinterpret_cast<const Floats*>(from);
}
[[gnu::always_inline]] inline void store(float* to, Floats x) {
    *reinterpret_cast<Floats*>(to) = x;
}

// bf16 by its bits. To the nearest, ties to even; arithmetic makes no NaN that rounding would carry out of the NaNs.
[[gnu::always_inline]] inline Floats load(const uint16_t* from) {
    return reinterpret_cast<Floats>(__builtin_convertvector(*reinterpret_cast<const Halves*>(from), Words) << 16);
}
[[gnu::always_inline]] inline void store(uint16_t* to, Floats x) {
    const Words bits = reinterpret_cast<Words>(x);
    *reinterpret_cast<Halves*>(to) = __builtin_convertvector((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, Halves);
}

// The same for one number.
[[gnu::always_inline]] inline float load_one(const float* from) {
    return *from;
}
[[gnu::always_inline]] inline float load_one(const uint16_t* from) {
    return __builtin_bit_cast(float, static_cast<uint32_t>(*from) << 16);
}
[[gnu::always_inline]] inline void store_one(float* to, float x) {
    *to = x;
}
[[gnu::always_inline]] inline void store_one(uint16_t* to, float x) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x);
    *to = static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// 2^x; 0 below 2^-126, where x may be -inf. x <= 127.
// x = n + r with |r| <= 1/2; 2^r by its series, c_k = (ln 2)^k / k!; 2^n through the exponent bits. Seven terms leave
// 1 unit in the last place, five a relative error of 3e-6, which weights that end as bf16 do not show.
template <int kTerms>
[[gnu::always_inline]] inline Floats exp2_of(Floats x) {
    static_assert(kTerms == 5 || kTerms == 7);
    constexpr float kToInteger = 0x1.8p23f;  // adding it leaves round(x) in the low bits
    const Floats shifted = x + kToInteger;
    const Floats r = x - (shifted - kToInteger);
    Floats series = r * 1.3333558e-3f + 9.6181291e-3f;
    if constexpr (kTerms == 7) {
        series = r * 1.5252734e-5f + 1.5403530e-4f;
        series = series * r + 1.3333558e-3f;
        series = series * r + 9.6181291e-3f;
    }
    series = series * r + 5.5504109e-2f;
    series = series * r + 2.4022651e-1f;
    series = series * r + 6.9314718e-1f;
    series = series * r + 1.0f;
    const Words bits = reinterpret_cast<Words>(series) + (reinterpret_cast<Words>(shifted) << 23);
    return x < -126.0f ? Floats{} : reinterpret_cast<Floats>(bits);
}

// The upper half added to the lower one, until four are left.
[[gnu::always_inline]] inline float sum_of_lanes(Floats x) {
#if defined(__AVX512F__)
    const auto eight = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                       __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
#else
    const auto eight = x;
#endif
#if defined(__AVX2__)
    const auto four =
        __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
#else
    const auto four = eight;
#endif
    return (four[0] + four[1]) + (four[2] + four[3]);
}

// Either of two numbers if one is NaN.
[[gnu::always_inline]] inline Floats greater_of(Floats x, Floats y) {
    return x > y ? x : y;
}

[[gnu::always_inline]] inline float greatest_lane(Floats x) {
    float greatest = x[0];
    for (int i = 1; i < kLanes; ++i) greatest = x[i] > greatest ? x[i] : greatest;
    return greatest;
}

}  // namespace
}  // namespace WINDLASS_ISA
}  // namespace windlass
