// Only - * /, each rounded once, and integers: the same bits on every instruction set.
#include "base/philox_vector.h"
#include "method/round_gradient_kernel.h"

namespace windlass::WINDLASS_ISA {
namespace {

constexpr int64_t kRun = kEightBitGradients;
constexpr uint32_t kNotFinite = 0x7f800000, kSign = 0x80000000;

struct RandomWords {
    alignas(64) uint32_t of[kRun];

    // Of elements from `begin` on.
    RandomWords(const PhiloxKeys& keys, const GradientNoise& noise, int64_t begin) {
        for (int64_t at = 0; at < kRun; at += kPhiloxRun)
            philox_run(keys, {noise.block + static_cast<uint64_t>(begin + at) / 4, noise.stream, noise.step, 0},
                       of + at);
    }
};

[[gnu::always_inline]] inline uint32_t bits_of(float x) {
    return __builtin_bit_cast(uint32_t, x);
}
[[gnu::always_inline]] inline float number_of(uint32_t bits) {
    return __builtin_bit_cast(float, bits);
}
[[gnu::always_inline]] inline float scale_number(uint16_t scale) {
    return number_of(static_cast<uint32_t>(scale) << 16);
}
[[gnu::always_inline]] inline bool is_finite(uint16_t scale) {
    return (scale & 0x7f80) != 0x7f80;
}
// The value of a code. In a block that is not finite it is the scale: processors differ in the bits of products with
// NaN.
[[gnu::always_inline]] inline float wide_number(int32_t code, uint16_t scale) {
    return is_finite(scale) ? static_cast<float>(code) * scale_number(scale) : scale_number(scale);
}

// The bf16 number that is not below largest / levels; not a number where something of the block is not finite, which
// all of it then is not.
uint16_t scale_of(const float* __restrict sum, int64_t count, int levels) {
    uint32_t largest = 0;
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t size = bits_of(sum[i]) & ~kSign;
        largest = size > largest ? size : largest;
    }
    if (largest >= kNotFinite) return 0x7fc0;
    return static_cast<uint16_t>((bits_of(number_of(largest) / static_cast<float>(levels)) + 0xffff) >> 16);
}

// x / scale to one of the whole numbers around it, up with the probability of the fraction.
template <int kLevels>
[[gnu::always_inline]] inline int32_t code_of(float x, float scale, uint32_t word) {
    const float multiple = x / scale;
    const int32_t cut = static_cast<int32_t>(multiple);
    const int32_t below = cut - (static_cast<float>(cut) > multiple ? 1 : 0);
    const float fraction = multiple - static_cast<float>(below);
    const int32_t code = below + (static_cast<float>(word >> 8) * 0x1p-24f < fraction ? 1 : 0);
    return code < -kLevels ? -kLevels : code > kLevels ? kLevels : code;
}

// Codes of one block; their values replace the sums.
template <int kLevels>
void round_block(float* __restrict sum, int64_t count, const uint32_t* __restrict words, uint16_t scale,
                 int8_t* __restrict codes) {
    const float unit = scale_number(scale);
    if (scale == 0 || !is_finite(scale)) {  // nothing but zeros, or nothing that can be kept
        for (int64_t i = 0; i < count; ++i) codes[i] = 0, sum[i] = unit;
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        const int32_t code = code_of<kLevels>(sum[i], unit, words[i]);
        codes[i] = static_cast<int8_t>(code);
        sum[i] = static_cast<float>(code) * unit;
    }
}

[[gnu::always_inline]] inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// `put` takes the codes of kRun elements, fewer at the end.
template <int64_t kBlock, int kLevels, typename Put>
[[gnu::always_inline]] inline void round_blocks(const GradientNoise& noise, const GradientRun& run, const Put& put) {
    const PhiloxKeys keys(noise.seed);
    for (int64_t begin = 0; begin < run.count; begin += kRun) {
        const RandomWords words(keys, noise, begin);
        const int64_t here = least(kRun, run.count - begin);
        int8_t codes[kRun] = {};
        for (int64_t at = 0; at < here; at += kBlock) {
            float* const sum = run.sum + begin + at;
            const int64_t count = least(kBlock, here - at);
            const uint16_t scale = scale_of(sum, count, kLevels);
            round_block<kLevels>(sum, count, words.of + at, scale, codes + at);
            if (run.scales != nullptr) run.scales[(begin + at) / kBlock] = scale;
        }
        if (run.narrow != nullptr) put(codes, begin, here);
    }
}

}  // namespace

// To one of the two bf16 numbers around x, up with the probability of the bits cut off. What is not finite stays so.
void round_to_bf16(const GradientNoise& noise, const GradientRun& run) {
    const PhiloxKeys keys(noise.seed);
    auto* const narrow = reinterpret_cast<uint16_t*>(run.narrow);
    for (int64_t begin = 0; begin < run.count; begin += kRun) {
        const RandomWords words(keys, noise, begin);
        const int64_t here = least(kRun, run.count - begin);
        uint16_t kept[kRun] = {};
        for (int64_t i = 0; i < here; ++i) {
            const uint32_t bits = bits_of(run.sum[begin + i]);
            const uint32_t random = (bits & kNotFinite) == kNotFinite ? 0 : words.of[i] >> 16;
            kept[i] = static_cast<uint16_t>((bits + random) >> 16);
            run.sum[begin + i] = scale_number(kept[i]);
        }
        if (narrow != nullptr) __builtin_memcpy(narrow + begin, kept, static_cast<uint64_t>(here) * sizeof(uint16_t));
    }
}

void round_to_i8(const GradientNoise& noise, const GradientRun& run) {
    round_blocks<kEightBitGradients, kEightBitLevels>(
        noise, run, [&](const int8_t* codes, int64_t begin, int64_t count) {
            __builtin_memcpy(run.narrow + begin, codes, static_cast<uint64_t>(count));
        });
}

// Two to a byte, the first one below.
void round_to_i4(const GradientNoise& noise, const GradientRun& run) {
    round_blocks<kFourBitGradients, kFourBitLevels>(noise, run, [&](const int8_t* codes, int64_t begin, int64_t count) {
        for (int64_t i = 0; i < count; i += 2)
            run.narrow[(begin + i) / 2] = static_cast<uint8_t>((codes[i] & 0xf) | codes[i + 1] << 4);
    });
}

void widen_bf16(const WideRun& run) {
    const auto* const narrow = reinterpret_cast<const uint16_t*>(run.narrow);
    for (int64_t i = 0; i < run.count; ++i) run.wide[i] = scale_number(narrow[i]);
}

void widen_i8(const WideRun& run) {
    const auto* const codes = reinterpret_cast<const int8_t*>(run.narrow);
    for (int64_t begin = 0; begin < run.count; begin += kEightBitGradients) {
        const uint16_t scale = run.scales[begin / kEightBitGradients];
        const int64_t end = least(begin + kEightBitGradients, run.count);
        for (int64_t i = begin; i < end; ++i) run.wide[i] = wide_number(codes[i], scale);
    }
}

void widen_i4(const WideRun& run) {
    for (int64_t begin = 0; begin < run.count; begin += kFourBitGradients) {
        const uint16_t scale = run.scales[begin / kFourBitGradients];
        const int64_t end = least(begin + kFourBitGradients, run.count);
        for (int64_t i = begin; i < end; ++i) {
            const int32_t nibble = run.narrow[i / 2] >> (i % 2 * 4) & 0xf;
            run.wide[i] = wide_number((nibble ^ 8) - 8, scale);
        }
    }
}

}  // namespace windlass::WINDLASS_ISA
