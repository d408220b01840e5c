// gaussian_cuda.h: standard normal numbers from counters in kernels: gaussian_vector.h, operation by operation, so that
// the bits are the CPU's. For .cu files alone.
#pragma once

#include "device/cuda/philox.h"
#include "device/cuda/unroll.h"
#include "perturb/noise_kernel.h"

namespace windlass {
namespace cuda_device {
namespace {

// The block of a kind's counters; the kinds' numbers are in README.md.
__device__ inline uint64_t noise_block(uint64_t kind, int64_t index) {
    return kind << kNoiseKindShift | static_cast<uint64_t>(index);
}

// sqrt(-2 ln u)
__device__ inline float radius_of(uint32_t word) {
    constexpr int32_t kRootHalf = 0x3f3504f3;
    const int32_t odd = static_cast<int32_t>(word >> 1 | 1u);
    const int32_t bits = __float_as_int(static_cast<float>(odd)) - kRootHalf;
    const float halvings = static_cast<float>(31 - (bits >> 23));
    const float t = __int_as_float((bits & 0x7fffff) + kRootHalf) - 1.0f;
    const float square = t * t;
    const float low = (-0x1.fffffep0f + 0x1.00007ap0f * t) + (-0x1.5559dcp-1f + 0x1.ff623cp-2f * t) * square;
    const float high = (-0x1.978e2ep-2f + 0x1.614c08p-2f * t) + (-0x1.4c3d08p-2f + 0x1.9dfa76p-3f * t) * square;
    return sqrtf(halvings * 0x1.62e43p0f + t * (low + high * (square * square)));
}

struct CirclePoint {
    float first, second;
};
__device__ inline CirclePoint circle_of(uint32_t word) {
    const float x = static_cast<float>(static_cast<int32_t>(word << 2)) * 0x1p-31f;
    const float square = x * x;
    const float across = x * ((0x1.921fb6p-1f - 0x1.4abbbap-4f * square) +
                              (0x1.465e92p-9f - 0x1.2d9302p-15f * square) * (square * square));
    const float along =
        (0x1.fffffep-1f - 0x1.3bd38cp-2f * square) + (0x1.03ae64p-6f - 0x1.4e35dap-12f * square) * (square * square);
    const float axis = __uint_as_float(__float_as_uint(along) ^ (word << 1 & 0x80000000u));
    const bool turned = static_cast<int32_t>(word) < 0;
    return {turned ? across : axis, turned ? axis : across};
}

// The numbers of a counter's four elements.
struct GaussianFour {
    float z[4];
};
__device__ inline GaussianFour gaussian_four(uint64_t seed, uint64_t block, uint32_t step, uint32_t direction) {
    const PhiloxWords found = philox_words(seed, block, kNoiseStream, step, direction);
    GaussianFour four;
    WINDLASS_UNROLL
    for (int pair = 0; pair < 2; ++pair) {
        const float radius = radius_of(found.words[2 * pair]);
        const CirclePoint point = circle_of(found.words[2 * pair + 1]);
        four.z[2 * pair] = radius * point.first;
        four.z[2 * pair + 1] = radius * point.second;
    }
    return four;
}

// One of four without an address: an index that is not known while compiling would put them into memory.
template <typename T>
__device__ inline T one_of(const T (&four)[4], int64_t index) {
    return index == 0 ? four[0] : index == 1 ? four[1] : index == 2 ? four[2] : four[3];
}

}  // namespace
}  // namespace cuda_device
}  // namespace windlass
