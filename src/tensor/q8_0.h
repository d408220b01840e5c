// q8_0.h: numbers of 8 bits in blocks of 32, each block with a scale of its own: the type of that name in GGUF files.
//
// A block is a scale in f16 and 32 signed bytes; a number is their product. A block's scale is its largest magnitude
// over 127, and a byte the number over that scale, before the scale is rounded to f16, to the nearest whole number,
// halves away from zero: ggml's reference (quantize_row_q8_0_ref), bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace windlass {

inline constexpr int64_t kQ8Block = 32;
inline constexpr int64_t kQ8BlockBytes = 34;
// Beyond it a block's scale would be an infinity of f16.
inline constexpr float kQ8Most = 127.0f * 65504.0f;

// Whole blocks of finite numbers within kQ8Most; `out` has kQ8BlockBytes for each.
void encode_q8_0(std::span<const float> numbers, std::span<std::byte> out);

}  // namespace windlass
