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

// The numbers of a, followed by those of b, at these places, which are constants. clang has no __builtin_shuffle, and
// makes one shuffle of the loop.
[[gnu::always_inline]] inline auto shuffled(auto a, auto b, auto places) {
#if defined(__clang__)
    constexpr int kCount = sizeof a / sizeof a[0];
    for (int i = 0; i < kCount; ++i) {
        const int place = places[i];
        const auto number = place < kCount ? a[place] : b[place - kCount];
        places[i] = __builtin_bit_cast(int32_t, number);
    }
    return __builtin_bit_cast(decltype(a), places);
#else
    return __builtin_shuffle(a, b, places);
#endif
}

}  // namespace
}  // namespace WINDLASS_ISA
}  // namespace windlass
