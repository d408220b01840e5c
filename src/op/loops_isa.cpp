#include "op/loops.h"
#include "tensor/master_vector.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

inline float from_bits(uint32_t bits) {
    return __builtin_bit_cast(float, bits);
}

inline float widened(uint16_t bits) {
    return from_bits(static_cast<uint32_t>(bits) << 16);
}

// Adding half a unit of the last kept bit, less one unless that bit is odd, carries into it exactly when the nearest
// bf16 number, ties to even, is the upper one. A NaN keeps its upper half, made quiet.
inline uint16_t narrowed(float x) {
    const uint32_t u = __builtin_bit_cast(uint32_t, x);
    const uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
    const uint32_t quiet = u >> 16 | 0x40u;
    return static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

void widen(const uint16_t* from, float* to, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = widened(from[i]);
}

void narrow(const float* from, uint16_t* to, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = narrowed(from[i]);
}

void add_narrow(const float* from, uint16_t* to, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = narrowed(widened(to[i]) + from[i]);
}

void add(const float* from, float* to, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

void join(const uint16_t* high, const int16_t* low, float* to, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = from_bits(joined_master(high[i], low[i]));
}

}  // namespace

extern const ConvertLoops kConvertLoops = {widen, narrow, add_narrow, add, join};

}  // namespace WINDLASS_ISA
}  // namespace windlass
