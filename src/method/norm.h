// norm.h: the exact global norm: fp64 partial sums over fixed chunks, added in a fixed order.
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "method/norm_cuda.h"

namespace windlass {

// partial[c] = sum of squares of elements [c * kNormChunkElements, ...), by work of this stream while it is launched.
// The same bits for any team and device.
void sum_squares(const float* values, int64_t count, std::span<double> partial, Stream& stream);

// Pairwise, in a tree fixed by the length.
double tree_sum(std::span<const double> values);

}  // namespace windlass
