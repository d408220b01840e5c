// vector_register.h: how wide one vector register of the instruction set is.
//
// For sources compiled per instruction set only (*_isa.cpp): everything has internal linkage in their namespace.
// Vectors are of this width and no wider: g++ 12 keeps what does not fit one register in memory, and each operation
// then waits for the store before it.
#pragma once

#include <cstdint>

namespace windlass {
namespace WINDLASS_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif
// Of 32 bits.
constexpr int64_t kLanes = kVectorBytes / 4;

}  // namespace
}  // namespace WINDLASS_ISA
}  // namespace windlass
