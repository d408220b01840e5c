// norm_cuda.h: the norm's partial sums on a CUDA device.
#pragma once

#include <cstdint>
#include <span>

namespace windlass {

class Stream;

// Each sum of squares covers this many elements of a gradient, however the gradient is cut.
inline constexpr int64_t kNormChunkElements = int64_t{1} << 16;

// Running sums of a chunk: element i is added to sum i % kNormLanes, or to the first after the last whole round.
inline constexpr int64_t kNormLanes = 8;

// A gradient, and where its sums go.
struct SquaresOf {
    const float* values = nullptr;  // [count]
    double* partial = nullptr;      // one for each kNormChunkElements
    int64_t count = 0;
};
using SumSquaresKernel = void (*)(std::span<const SquaresOf> gradients, Stream& stream);
extern const SumSquaresKernel kSumSquaresCuda;  // null in builds without CUDA

}  // namespace windlass
