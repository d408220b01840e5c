// Only + - * / sqrt, each rounded once (the build turns contraction off), and integers: the same bits on every
// instruction set.
#include <cmath>

#include "base/philox_vector.h"
#include "method/adamw/adamw_kernel.h"

namespace windlass::WINDLASS_ISA {
namespace {

static_assert(kAdamwBlock % kPhiloxRun == 0);

[[gnu::always_inline]] inline uint32_t bits_of(float x) {
    return __builtin_bit_cast(uint32_t, x);
}
[[gnu::always_inline]] inline float float_of(uint32_t bits) {
    return __builtin_bit_cast(float, bits);
}

[[gnu::always_inline]] inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

[[gnu::always_inline]] inline float first_moment(const AdamwCoefficients& k, float m, float g) {
    return m * k.beta1 + g * k.one_minus_beta1;
}
[[gnu::always_inline]] inline float second_moment(const AdamwCoefficients& k, float v, float g) {
    return v * k.beta2 + g * g * k.one_minus_beta2;
}
// `root` is the second moment's, its bias taken out.
[[gnu::always_inline]] inline void step_master(const AdamwCoefficients& k, float first, float root, uint16_t& hi,
                                               int16_t& lo) {
    const float p =
        float_of((static_cast<uint32_t>(hi) << 16) + static_cast<uint32_t>(static_cast<int32_t>(lo))) * k.decay -
        k.step_size * (first / (root + k.epsilon));
    const uint32_t u = bits_of(p);
    const uint32_t high = (u + 0x8000u) >> 16;
    hi = static_cast<uint16_t>(high);
    lo = static_cast<int16_t>(static_cast<uint16_t>(u - (high << 16)));
}

// To one of the two bf16 numbers around x, up with the probability of the bits cut off: x on the average.
[[gnu::always_inline]] inline uint16_t round_to_bf16(float x, uint32_t random16) {
    return static_cast<uint16_t>((bits_of(x) + random16) >> 16);
}

// Codes of the 8-bit format: eight to an octave, kOctaves of them below the block's scale. As y >= 0 in units of the
// scale: code k stands for y = 2^-kOctaves (2^floor(k / 8) (1 + (k mod 8) / 8) - 1), which are the numbers whose sum
// with 2^-kOctaves has three bits of mantissa.
template <int kOctaves>
struct Codes {
    static constexpr uint32_t kZero = static_cast<uint32_t>(127 - kOctaves) << 23;  // bits of 2^-kOctaves
    static constexpr int kCut = 20;                                                 // bits of the mantissa left out
    static constexpr uint32_t kLast = kOctaves * 8 - 1;

    [[gnu::always_inline]] static float value(uint32_t code) {
        return float_of((code << kCut) + kZero) - float_of(kZero);
    }
    // Rounds as round_to_bf16 does; sixteen random bits are the upper ones of the twenty that are cut, and half of one
    // stands for the rest.
    static constexpr uint32_t kRandom = 0xffff0;
    [[gnu::always_inline]] static uint32_t of(float y, uint32_t random) {
        const uint32_t code = (bits_of(y + float_of(kZero)) + (random & kRandom) + (8u - kZero)) >> kCut;
        return code < kLast ? code : kLast;
    }
};
using FirstCodes = Codes<16>;
using SecondCodes = Codes<32>;

// The exponent field of a block's scale: of the smallest power of two S with largest <= 15/16 S, the last code. Kept
// where S and 1 / S are both normal numbers.
[[gnu::always_inline]] inline uint32_t scale_exponent(uint32_t largest) {
    const uint32_t exponent = ((largest + 0xfffffu) >> 23) + 1;
    return exponent < 253u ? exponent : 253u;
}

void step_bf16(const AdamwCoefficients& k, int64_t count, uint16_t* __restrict hi, int16_t* __restrict lo,
               uint16_t* __restrict m, uint16_t* __restrict v, const float* __restrict gradient,
               const uint32_t* __restrict random) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
        const float g = gradient[i] * k.clip;
        const float first = first_moment(k, float_of(static_cast<uint32_t>(m[i]) << 16), g);
        const float second = second_moment(k, float_of(static_cast<uint32_t>(v[i]) << 16), g);
        m[i] = round_to_bf16(first, random[i] & 0xffffu);
        v[i] = round_to_bf16(second, random[i] >> 16);
        step_master(k, first, std::sqrt(second) * k.inverse_root_bias2, hi[i], lo[i]);
    }
}

// Bits of the largest magnitudes: those of positive numbers are ordered as the numbers are.
struct Largest {
    uint32_t m = 0, v = 0;
};
[[gnu::always_inline]] inline uint32_t max_of(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

Largest step_block(const AdamwCoefficients& k, int64_t count, uint16_t* __restrict hi, int16_t* __restrict lo,
                   const uint8_t* __restrict m, float m_scale, const uint8_t* __restrict v, float v_scale,
                   const float* __restrict gradient, float* __restrict firsts, float* __restrict seconds) {
    uint32_t largest_m = 0, largest_v = 0;
#pragma omp simd reduction(max : largest_m, largest_v)
    for (int64_t i = 0; i < count; ++i) {
        const float g = gradient[i] * k.clip;
        const uint32_t sign = static_cast<uint32_t>(m[i] & 0x80u) << 24;
        const float m_old = float_of(bits_of(FirstCodes::value(m[i] & 0x7fu) * m_scale) | sign);
        const float first = first_moment(k, m_old, g);
        const float second = second_moment(k, SecondCodes::value(v[i]) * v_scale, g);
        firsts[i] = first;
        seconds[i] = second;
        largest_m = max_of(largest_m, bits_of(first) & 0x7fffffffu);
        largest_v = max_of(largest_v, bits_of(second));
        step_master(k, first, std::sqrt(second) * k.inverse_root_bias2, hi[i], lo[i]);
    }
    return {largest_m, largest_v};
}

// A second moment that is not zero stays so: a zero below a first moment that is not would make the step a leap.
void encode_block(int64_t count, const Largest& largest, const float* __restrict firsts,
                  const float* __restrict seconds, const uint32_t* __restrict random, uint8_t* __restrict m,
                  float& m_scale, uint8_t* __restrict v, float& v_scale) {
    const uint32_t m_exponent = scale_exponent(largest.m), v_exponent = scale_exponent(largest.v);
    const float m_inverse = float_of((254u - m_exponent) << 23), v_inverse = float_of((254u - v_exponent) << 23);
    m_scale = float_of(m_exponent << 23);
    v_scale = float_of(v_exponent << 23);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t first = bits_of(firsts[i]), second = bits_of(seconds[i]);
        const uint32_t m_code = FirstCodes::of(float_of(first & 0x7fffffffu) * m_inverse, random[i] << 4);
        const uint32_t v_code = SecondCodes::of(seconds[i] * v_inverse, random[i] >> 12);
        m[i] = static_cast<uint8_t>(m_code | (first >> 24 & 0x80u));
        v[i] = static_cast<uint8_t>(second == 0 ? 0u : v_code > 1u ? v_code : 1u);
    }
}

}  // namespace

void adamw_f32(const AdamwCoefficients& c, const AdamwNoise&, int64_t count, uint16_t* __restrict hi,
               int16_t* __restrict lo, const AdamwF32& moments, const float* __restrict gradient) {
    const AdamwCoefficients k = c;
    float* __restrict m = moments.m;
    float* __restrict v = moments.v;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
        const float g = gradient[i] * k.clip;
        const float first = first_moment(k, m[i], g), second = second_moment(k, v[i], g);
        m[i] = first;
        v[i] = second;
        step_master(k, first, std::sqrt(second) / k.root_bias2, hi[i], lo[i]);
    }
}

void adamw_bf16(const AdamwCoefficients& c, const AdamwNoise& noise, int64_t count, uint16_t* hi, int16_t* lo,
                const AdamwBf16& moments, const float* gradient) {
    const AdamwCoefficients k = c;
    alignas(64) uint32_t random[kPhiloxRun];
    for (int64_t at = 0; at < count; at += kPhiloxRun) {
        philox_run(noise.seed, noise.block + static_cast<uint64_t>(at / 4), noise.stream, noise.step, 0, random);
        step_bf16(k, least(count - at, kPhiloxRun), hi + at, lo + at, moments.m + at, moments.v + at, gradient + at,
                  random);
    }
}

void adamw_blocks(const AdamwCoefficients& c, const AdamwNoise& noise, int64_t count, uint16_t* hi, int16_t* lo,
                  const AdamwBlocks& moments, const float* gradient) {
    const AdamwCoefficients k = c;
    alignas(64) uint32_t random[kAdamwBlock];
    alignas(64) float firsts[kAdamwBlock], seconds[kAdamwBlock];
    for (int64_t at = 0; at < count; at += kAdamwBlock) {
        const int64_t n = least(count - at, kAdamwBlock);
        float& m_scale = moments.m_scale[at / kAdamwBlock];
        float& v_scale = moments.v_scale[at / kAdamwBlock];
        const Largest largest = step_block(k, n, hi + at, lo + at, moments.m + at, m_scale, moments.v + at, v_scale,
                                           gradient + at, firsts, seconds);
        for (int64_t run = 0; run < n; run += kPhiloxRun)
            philox_run(noise.seed, noise.block + static_cast<uint64_t>((at + run) / 4), noise.stream, noise.step, 0,
                       random + run);
        encode_block(n, largest, firsts, seconds, random, moments.m + at, m_scale, moments.v + at, v_scale);
    }
}

}  // namespace windlass::WINDLASS_ISA
