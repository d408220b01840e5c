// nf4_levels.h: the sixteen numbers of NormalFloat4 and the layout of a block of them, for objects of every instruction
// set.
#pragma once

#include <cstdint>

namespace windlass {

// Quantiles of a normal distribution, so that about as many of its numbers are nearest to each, scaled to [-1, 1], with
// 0 among them: Dettmers et al., "QLoRA" (arXiv 2305.14314), section 3 and appendix E.
inline constexpr float kNf4Levels[16] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};
inline constexpr int kNf4Zero = 7;  // the code of 0

// A block: the codes of 64 numbers, number 2i in the lower four bits of byte i and number 2i + 1 in the upper ones, and
// after them the block's scale, a bf16 (little-endian).
inline constexpr int64_t kNf4Block = 64;
inline constexpr int64_t kNf4CodeBytes = kNf4Block / 2;
inline constexpr int64_t kNf4BlockBytes = kNf4CodeBytes + 2;

}  // namespace windlass
