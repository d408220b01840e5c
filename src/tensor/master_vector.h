// master_vector.h: the split master of tensor/dtype.h for kernels of the CPU: of one element, or of vectors of them.
//
// For sources compiled per instruction set only (*_isa.cpp): everything has internal linkage in their namespace.
// Kernels for CUDA devices call split_master and join_master themselves. tests/unit/tensor/master_test.cpp compares
// this with those two on all patterns.
#pragma once

#include <cstdint>

namespace windlass {
namespace WINDLASS_ISA {
namespace {

[[gnu::always_inline]] inline uint32_t joined_master(uint16_t hi, int16_t lo) {
    return (static_cast<uint32_t>(hi) << 16) + static_cast<uint32_t>(static_cast<int32_t>(lo));
}
[[gnu::always_inline]] inline uint16_t master_hi(uint32_t bits) {
    return static_cast<uint16_t>((bits + 0x8000u) >> 16);
}
[[gnu::always_inline]] inline int16_t master_lo(uint32_t bits) {
    return static_cast<int16_t>(static_cast<uint16_t>(bits));
}

// The same for kernels that take 32-bit vectors apart into 16-bit ones and back. A master's lower 16 bits are lo; its
// upper ones are these, of lanes without a sign: a negative lo borrows from them.
template <typename Shorts>
[[gnu::always_inline]] inline Shorts master_upper_bits(Shorts hi, Shorts lo) {
    return hi - (lo >> 15);
}
// Numbers whose upper 16 bits are hi.
template <typename Words>
[[gnu::always_inline]] inline Words hi_in_upper_bits(Words bits) {
    return bits + 0x8000u;
}

}  // namespace
}  // namespace WINDLASS_ISA
}  // namespace windlass
