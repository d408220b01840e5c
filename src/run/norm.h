// norm.h: the exact global norm: fp64 partial sums over fixed chunks, added in a fixed order.
#pragma once

#include <cstdint>
#include <span>

#include "device/cpu/team.h"

namespace windlass {

// partial[c] = sum of squares of elements [c * kNormChunkElements, ...). The same bits for any team.
void sum_squares(const float* values, int64_t count, std::span<double> partial, Team& team);

// Pairwise, in a tree fixed by the length.
double tree_sum(std::span<const double> values);

}  // namespace windlass
