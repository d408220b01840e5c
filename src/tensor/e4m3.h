// e4m3.h: floating-point numbers of 8 bits: a sign, four bits of exponent (bias 7), three of mantissa.
//
// No infinity; the largest number is 448, the smallest 2^-9, and only the pattern of all ones is NaN (OCP 8-bit
// Floating Point Specification, revision 1.0, E4M3). A matrix of them has one scale, a power of two: the value of each
// is its number times 2^exponent, which bf16 and f32 hold exactly.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace windlass {

inline constexpr float kE4m3Max = 448.0f;
// Of scales: all values of a matrix are normal numbers in bf16.
inline constexpr int kE4m3ScaleMin = -117, kE4m3ScaleMax = 119;
// Narrower: all values of a matrix are numbers of f16.
inline constexpr int kE4m3HalfScaleMin = -15, kE4m3HalfScaleMax = 7;

inline float e4m3_to_float(uint8_t bits) {
    constexpr float kLeastNormal = 0x1p-6f;
    const uint32_t magnitude = (bits & 0x7fu) << 20, sign = (bits & 0x80u) << 24;
    // Below the normal numbers the mantissa counts multiples of 2^-9, as it does between 2^-6 and 2^-5.
    const float small = std::bit_cast<float>(magnitude + std::bit_cast<uint32_t>(kLeastNormal)) - kLeastNormal;
    const uint32_t number = magnitude < 0x00800000u ? std::bit_cast<uint32_t>(small) : magnitude + 0x3c000000u;
    return std::bit_cast<float>((magnitude == 0x07f00000u ? 0x7fc00000u : number) | sign);
}

// To the nearest, ties to even; beyond 448 to 448.
inline uint8_t float_to_e4m3(float x) {
    const uint32_t u = std::bit_cast<uint32_t>(x), magnitude = u & 0x7fffffffu;
    const auto sign = static_cast<uint8_t>(u >> 24 & 0x80u);
    if (magnitude > 0x7f800000u) return sign | 0x7fu;
    const float bounded = std::min(std::bit_cast<float>(magnitude), kE4m3Max);
    if (bounded < 0x1p-6f) return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(bounded + 0x1p14f) & 0xfu));
    const uint32_t bits = std::bit_cast<uint32_t>(bounded);
    return static_cast<uint8_t>(sign | (bits + 0x7ffffu + (bits >> 20 & 1u) - 0x3c000000u) >> 20);
}

// 2^exponent, of a normal number.
inline float power_of_two(int exponent) {
    return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

// The scale's exponent for numbers up to this magnitude: it becomes a number in [112, 224), so that it may double
// before it is cut off; 0 for a magnitude of 0. In [least, most].
inline int e4m3_scale_exponent(float largest, int least, int most) {
    if (largest == 0) return 0;
    int exponent = 0;
    const float share = std::frexp(largest, &exponent);  // in [0.5, 1)
    return std::clamp(exponent - (share < 0.875f ? 8 : 7), least, most);
}

}  // namespace windlass
