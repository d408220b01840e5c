// nf4_vector.h: numbers of nf4 (tensor/nf4.h) as f32: one product each, so the same bits on every instruction set.
//
// For sources compiled per instruction set only (*_isa.cpp): everything has internal linkage in their namespace.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "tensor/nf4_levels.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

[[gnu::always_inline]] inline float nf4_scale(const unsigned char* block) {
    uint16_t bits;
    __builtin_memcpy(&bits, block + kNf4CodeBytes, sizeof bits);
    return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
}

#if defined(__AVX2__)
// The codes of sixteen numbers, in their order.
[[gnu::always_inline]] inline __m128i nf4_codes(const unsigned char* bytes) {
    const __m128i pairs = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)), low = _mm_set1_epi8(0xf);
    return _mm_unpacklo_epi8(_mm_and_si128(pairs, low), _mm_and_si128(_mm_srli_epi16(pairs, 4), low));
}
#endif

// A block's 64 numbers.
[[gnu::always_inline]] inline void nf4_decode_block(const unsigned char* block, float* __restrict to) {
    const float scale = nf4_scale(block);
#if defined(__AVX512F__)
    const __m512 levels = _mm512_loadu_ps(kNf4Levels), factor = _mm512_set1_ps(scale);
    for (int64_t i = 0; i < kNf4Block; i += 16) {
        // All lanes are needed; without masks gcc 12 warns of an undefined value in its own header.
        const __m512i codes = _mm512_maskz_cvtepu8_epi32(0xffff, nf4_codes(block + i / 2));
        _mm512_storeu_ps(to + i, _mm512_mul_ps(_mm512_maskz_permutexvar_ps(0xffff, codes, levels), factor));
    }
#elif defined(__AVX2__)
    const __m256 negative = _mm256_loadu_ps(kNf4Levels), positive = _mm256_loadu_ps(kNf4Levels + 8);
    const __m256 factor = _mm256_set1_ps(scale);
    for (int64_t i = 0; i < kNf4Block; i += 16) {
        const __m128i codes = nf4_codes(block + i / 2);
        for (int64_t half = 0; half < 2; ++half) {
            const __m256i eight = _mm256_cvtepu8_epi32(half == 0 ? codes : _mm_unpackhi_epi64(codes, codes));
            const __m256 is_upper = _mm256_castsi256_ps(_mm256_slli_epi32(eight, 28));  // a code's bit 3 as the sign
            const __m256 level = _mm256_blendv_ps(_mm256_permutevar8x32_ps(negative, eight),
                                                  _mm256_permutevar8x32_ps(positive, eight), is_upper);
            _mm256_storeu_ps(to + i + 8 * half, _mm256_mul_ps(level, factor));
        }
    }
#else
    for (int64_t i = 0; i < kNf4CodeBytes; ++i) {
        to[2 * i] = kNf4Levels[block[i] & 0xf] * scale;
        to[2 * i + 1] = kNf4Levels[block[i] >> 4] * scale;
    }
#endif
}

// The `count` numbers from `first` on, counted from the first block.
inline void nf4_decode(const void* blocks, int64_t first, int64_t count, float* __restrict to) {
    const auto* block = static_cast<const unsigned char*>(blocks) + first / kNf4Block * kNf4BlockBytes;
    for (int64_t begin = first % kNf4Block; count > 0; block += kNf4BlockBytes, begin = 0) {
        const int64_t taken = count < kNf4Block - begin ? count : kNf4Block - begin;
        if (taken == kNf4Block) {
            nf4_decode_block(block, to);
        } else {
            alignas(64) float numbers[kNf4Block];
            nf4_decode_block(block, numbers);
            __builtin_memcpy(to, numbers + begin, static_cast<uint64_t>(taken) * sizeof(float));
        }
        to += taken;
        count -= taken;
    }
}

}  // namespace
}  // namespace WINDLASS_ISA
}  // namespace windlass
