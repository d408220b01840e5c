// nf4.h: NormalFloat4: numbers of four bits in blocks of 64, each block with a scale of its own.
//
// A number is one of sixteen levels (nf4_levels.h) times its block's scale, one product in f32. Blocks go over a
// parameter's elements in their order; where the last is not full, what is missing has the code of 0. The levels and
// the size of blocks are QLoRA's; its scales are f32 that are quantised once more, ours are bf16: 34 bytes for 64
// numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/math.h"
#include "tensor/nf4_levels.h"

namespace windlass {

// Bytes of `count` numbers: whole blocks.
constexpr int64_t nf4_bytes(int64_t count) {
    return div_up(count, kNf4Block) * kNf4BlockBytes;
}

// What a block's scale may be: at least, unless it is 0, and at most; both numbers of bf16.
struct Nf4Scales {
    float least = 0, most = 0;
};
// Those of normal numbers.
inline constexpr Nf4Scales kNf4Scales = {0x1p-126f, 0x1.fep127f};
// Those that are numbers of f16, whatever their last bits.
inline constexpr Nf4Scales kNf4HalfScales = {0x1p-17f, 0x1.fep15f};

// `numbers` are finite and begin with a block; `out` has nf4_bytes(numbers.size()). The scale is the block's largest
// magnitude, rounded up to bf16 so that no number is beyond it, then bounded; a number becomes the level nearest to its
// quotient with the scale, of two at the same distance the lower. A block of zeros alone has the scale 0. What was
// decoded, and rounded to f32, to bf16, or with kNf4HalfScales to f16, is encoded as it was.
void encode_nf4(std::span<const float> numbers, const Nf4Scales& scales, std::span<std::byte> out);

// The numbers from `first` on, counted from the first block of `blocks`.
void decode_nf4(std::span<const std::byte> blocks, int64_t first, std::span<float> out);

}  // namespace windlass
