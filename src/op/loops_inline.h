// loops_inline.h: sums, and the exponential and its kin as plain arithmetic, which compilers turn into vector code.
//
// For sources compiled per instruction set only (*_isa.cpp): everything has internal linkage in their namespace.
// Products may contract into sums here: bits of these ops may follow the instruction set, never the team's size.
#pragma once

#include <cstdint>

#include "op/contraction.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

// term(0) + ... + term(n - 1), by quarters: four running sums hide the latency of addition. The order depends on n and
// on the width of vectors alone.
template <typename Term>
inline float sum_of(int64_t n, Term term) {
    const int64_t quarter = n / 4;
    float a = 0, b = 0, c = 0, d = 0;
#pragma omp simd reduction(+ : a, b, c, d)
    for (int64_t i = 0; i < quarter; ++i) {
        a += term(i);
        b += term(i + quarter);
        c += term(i + 2 * quarter);
        d += term(i + 3 * quarter);
    }
    for (int64_t i = 4 * quarter; i < n; ++i) a += term(i);
    return (a + b) + (c + d);
}

inline float from_bits(uint32_t bits) {
    return __builtin_bit_cast(float, bits);
}
inline uint32_t bits_of(float x) {
    return __builtin_bit_cast(uint32_t, x);
}

// x, or the nearest number of magnitude 87; NaN becomes one of the two. In integers, because compilers would compute
// what follows a comparison of floats once more for the bound, with results in the slow subnormal range.
inline float within_87(float x) {
    constexpr uint32_t kSign = 0x80000000u;
    const uint32_t bound = bits_of(87.0f);
    const uint32_t magnitude = bits_of(x) & ~kSign;
    return from_bits((magnitude < bound ? magnitude : bound) | (bits_of(x) & kSign));
}

// e^x within 2 units in the last place for |x| <= 87, and saturated beyond: always a finite, normal number. Callers
// multiply by their argument, so that a NaN stays one.
// x = n ln 2 + r with |r| <= ln 2 / 2, in two steps so that n ln 2 is exact; e^r by its series, whose next term is
// below 6e-9; 2^n through the exponent bits.
inline float exp_float(float unbounded) {
    constexpr float kToInteger = 0x1.8p23f;  // adding it leaves round(x) in the low bits
    const float x = within_87(unbounded);
    const float shifted = x * 0x1.715476p0f + kToInteger;  // log2 e
    const float n = shifted - kToInteger;
    float r = x - n * 0x1.62e4p-1f;  // ln 2: 17 bits, and the rest
    r = r - n * 0x1.7f7d1cp-20f;
    float series = 1.0f / 5040;
    series = series * r + 1.0f / 720;
    series = series * r + 1.0f / 120;
    series = series * r + 1.0f / 24;
    series = series * r + 1.0f / 6;
    series = series * r + 0.5f;
    series = series * r + 1.0f;
    series = series * r + 1.0f;
    return from_bits(bits_of(series) + (bits_of(shifted) << 23));  // n, modulo 2^9, goes to the exponent
}

inline float sigmoid(float x) {
    return 1.0f / (1.0f + exp_float(-x));
}

// tanh x within 2 units in the last place; NaN stays NaN. Near zero x + x^3 Q(x^2), with Q fitted for |x| <= 0.625
// (relative error 5e-9); beyond that, 1 - 2 / (e^(2|x|) + 1) loses no digits.
inline float tanh_float(float x) {
    const float size = from_bits(bits_of(x) & 0x7fffffffu), square = x * x;
    float q = -0.00570498677f;
    q = q * square + 0.020639087f;
    q = q * square - 0.053739715f;
    q = q * square + 0.133314422f;
    q = q * square - 0.333332819f;
    const float small = x + x * square * q;
    const float large = 1.0f - 2.0f / (exp_float(2.0f * size) + 1.0f);
    return size > 0.625f ? from_bits(bits_of(large) | (bits_of(x) & 0x80000000u)) : small;
}

// The standard normal distribution function, from e^(-x^2/2), with small relative error also in the lower tail.
// For z = |x| and t = 1 / (1 + 0.35 z) the tail is e^(-z^2/2) t P(t); P was fitted to it for z <= 14 (error 4e-8).
inline float normal_tail_from(float z, float gauss) {
    const float t = 1.0f / (1.0f + 0.35f * z);
    float p = -0.0295525694f;
    p = p * t + 0.145892507f;
    p = p * t - 0.25954765f;
    p = p * t + 0.163379195f;
    p = p * t - 0.0258708352f;
    p = p * t + 0.106614f;
    p = p * t + 0.119570151f;
    p = p * t + 0.139895557f;
    p = p * t + 0.139619625f;
    return gauss * t * p;
}
inline float normal_cdf_from(float x, float gauss) {
    const float tail = normal_tail_from(x < 0 ? -x : x, gauss);
    return x < 0 ? tail : 1.0f - tail;
}

}  // namespace
}  // namespace WINDLASS_ISA
}  // namespace windlass
