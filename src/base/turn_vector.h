// turn_vector.h: four rows of four numbers, turned, in registers.
//
// For sources compiled per instruction set only (*_isa.cpp): everything has internal linkage in their namespace.
#pragma once

#include <cstdint>

namespace windlass {
namespace WINDLASS_ISA {
namespace {

typedef float Floats4 __attribute__((vector_size(16), aligned(4), may_alias));

[[gnu::always_inline]] inline Floats4 load4(const float* from) {
    return *reinterpret_cast<const Floats4*>(from);
}
[[gnu::always_inline]] inline void store4(float* to, Floats4 x) {
    *reinterpret_cast<Floats4*>(to) = x;
}

// to[j][i] = from[i][j]; strides are in numbers.
[[gnu::always_inline]] inline void turn4(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
    const Floats4 a = load4(from), b = load4(from + from_stride), c = load4(from + 2 * from_stride),
                  d = load4(from + 3 * from_stride);
    const Floats4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
                  ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7),
                  cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5),
                  cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store4(to, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
    store4(to + to_stride, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
    store4(to + 2 * to_stride, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
    store4(to + 3 * to_stride, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

}  // namespace
}  // namespace WINDLASS_ISA
}  // namespace windlass
