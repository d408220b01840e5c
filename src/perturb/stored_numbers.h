// stored_numbers.h: weights as f32, bf16, f16 and e4m3, by their bits: reading, rounding to the nearest and at random.
//
// For sources compiled per instruction set (*_isa.cpp), and for .cu files, to which devices are one more: everything
// has internal linkage in their namespace. Plain integer arithmetic without branches, which the compiler makes vectors
// of. A NaN stays one.
#pragma once

#include <cstdint>

namespace windlass {
namespace WINDLASS_ISA {
namespace {

constexpr uint32_t kSignBit = 0x80000000u;
constexpr uint32_t kInfinity = 0x7f800000u;
constexpr uint32_t kHalfNormal = 0x38800000u;    // 2^-14, the smallest normal f16
constexpr uint32_t kHalfInfinity = 0x47800000u;  // 2^16, the first number beyond all f16 and their rounding
constexpr uint32_t kF8Normal = 0x3c800000u;      // 2^-6, the smallest normal e4m3
constexpr uint32_t kF8Largest = 0x43e00000u;     // 448
constexpr uint32_t kF8Bias = 0x3c000000u;        // of exponents, from e4m3's to f32's

[[gnu::always_inline]] constexpr uint32_t bits_of(float x) {
    return __builtin_bit_cast(uint32_t, x);
}
[[gnu::always_inline]] constexpr float float_of(uint32_t bits) {
    return __builtin_bit_cast(float, bits);
}

// A type of weights: its element, and its numbers as f32. nearest(): to the closest, ties to even. random(): to one of
// the two neighbours, up with the probability of what is cut off, by sixteen random bits; a number of the type is
// kept. encode() takes only numbers of the type.
struct F32 {
    typedef float Element;
    static constexpr bool kRounds = false;
    [[gnu::always_inline]] static constexpr float decode(float x) { return x; }
    [[gnu::always_inline]] static constexpr float encode(float x) { return x; }
    [[gnu::always_inline]] static constexpr float nearest(float x) { return x; }
    [[gnu::always_inline]] static constexpr float random(float x, uint32_t) { return x; }
};

struct Bf16 {
    typedef uint16_t Element;
    static constexpr bool kRounds = true;
    [[gnu::always_inline]] static constexpr float decode(uint16_t bits) {
        return float_of(static_cast<uint32_t>(bits) << 16);
    }
    [[gnu::always_inline]] static constexpr uint16_t encode(float x) { return static_cast<uint16_t>(bits_of(x) >> 16); }
    [[gnu::always_inline]] static constexpr float nearest(float x) {
        const uint32_t u = bits_of(x);
        const uint32_t rounded = u + 0x7fffu + (u >> 16 & 1u);
        return float_of(((u & ~kSignBit) > kInfinity ? u | 0x400000u : rounded) & 0xffff0000u);
    }
    [[gnu::always_inline]] static constexpr float random(float x, uint32_t random16) {
        const uint32_t u = bits_of(x);
        return float_of(((u & ~kSignBit) > kInfinity ? u | 0x400000u : u + random16) & 0xffff0000u);
    }
};

struct F16 {
    typedef uint16_t Element;
    static constexpr bool kRounds = true;
    [[gnu::always_inline]] static constexpr float decode(uint16_t bits) {
        const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
        const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
        const float small = float_of(magnitude + kHalfNormal) - float_of(kHalfNormal);
        const uint32_t normal = magnitude + (magnitude < 0x0f800000u ? 0x38000000u : 0x70000000u);
        return float_of((magnitude < 0x00800000u ? bits_of(small) : normal) | sign);
    }
    [[gnu::always_inline]] static constexpr uint16_t encode(float x) {
        const uint32_t u = bits_of(x), magnitude = u & ~kSignBit;
        // Below the normal numbers a sum with 1/2 counts multiples of 2^-24 in its low bits.
        const uint32_t small = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
        const uint32_t normal = (magnitude - 0x38000000u) >> 13, top = 0x7c00u | (magnitude >> 13 & 0x3ffu);
        const uint32_t large = magnitude < kHalfInfinity ? normal : top;
        return static_cast<uint16_t>((magnitude < kHalfNormal ? small : large) | (u >> 16 & 0x8000u));
    }
    // A rounded magnitude's bits: beyond the largest number is infinity.
    [[gnu::always_inline]] static constexpr uint32_t bounded(uint32_t magnitude) {
        const uint32_t large = magnitude > kInfinity ? magnitude : kInfinity;
        return magnitude < kHalfInfinity ? magnitude : large;
    }
    [[gnu::always_inline]] static constexpr float nearest(float x) {
        const uint32_t u = bits_of(x), magnitude = u & ~kSignBit;
        const float small = (float_of(magnitude) + 0.5f) - 0.5f;
        const uint32_t rounded = bounded((magnitude + 0xfffu + (magnitude >> 13 & 1u)) & ~0x1fffu);
        const uint32_t large = magnitude > kInfinity ? magnitude | 0x400000u : rounded;
        return float_of((magnitude < kHalfNormal ? bits_of(small) : large) | (u & kSignBit));
    }
    // A normal number loses thirteen bits. Below 2^-14 all numbers are multiples of 2^-24, and so they are from there
    // to 2^-13: moved there, rounded to a multiple of 2^-37, they lose thirteen bits as well.
    [[gnu::always_inline]] static constexpr float random(float x, uint32_t random16) {
        const uint32_t u = bits_of(x), magnitude = u & ~kSignBit;
        const float moved = float_of(magnitude < kHalfNormal ? kHalfNormal : 0u);
        const uint32_t rounded = (bits_of(float_of(magnitude) + moved) + (random16 & 0x1fffu)) & ~0x1fffu;
        return float_of(bits_of(float_of(bounded(rounded)) - moved) | (u & kSignBit));
    }
};

// A number of e4m3 times a power of two, `up`; `down` is its inverse. Products with them are exact where the result is
// or will be such a number.
struct F8 {
    typedef uint8_t Element;
    static constexpr bool kRounds = true;
    float up, down;
    [[gnu::always_inline]] constexpr float decode(uint8_t bits) const {
        const uint32_t sign = static_cast<uint32_t>(bits & 0x80u) << 24;
        const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fu) << 20;
        const float small = float_of(magnitude + kF8Normal) - float_of(kF8Normal);
        const float number = float_of(magnitude < 0x00800000u ? bits_of(small) : magnitude + kF8Bias) * up;
        return float_of((magnitude < 0x07f00000u ? bits_of(number) : 0x7fc00000u) | sign);
    }
    [[gnu::always_inline]] constexpr uint8_t encode(float x) const {
        const uint32_t u = bits_of(x * down), magnitude = u & ~kSignBit;
        const uint32_t small = bits_of(float_of(magnitude) + float_of(kF8Normal)) - kF8Normal;
        const uint32_t number = (magnitude < kF8Normal ? small : magnitude - kF8Bias) >> 20;
        return static_cast<uint8_t>((magnitude > kInfinity ? 0x7fu : number) | (u >> 24 & 0x80u));
    }
    // Twenty bits are lost, as in F16; below 2^-6 all numbers are multiples of 2^-9. The random bits are the upper
    // sixteen, and half of the last one replaces the lower ones: on average nothing is added, and a step of less than
    // 2^-17 of the numbers' distance is lost.
    [[gnu::always_inline]] constexpr float random(float x, uint32_t random16) const {
        const uint32_t u = bits_of(x * down), magnitude = u & ~kSignBit;
        const float moved = float_of(magnitude < kF8Normal ? kF8Normal : 0u);
        const uint32_t sum = bits_of(float_of(magnitude) + moved) + ((random16 << 4) | 8u);
        const uint32_t rounded = sum & ~0xfffffu, largest = magnitude > kInfinity ? magnitude : kF8Largest;
        const float number = (float_of(rounded < kF8Largest ? rounded : largest) - moved) * up;
        return float_of(bits_of(number) | (u & kSignBit));
    }
};

}  // namespace
}  // namespace WINDLASS_ISA
}  // namespace windlass
