#include "op/sparse.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // passing vectors wider than the registers: everything here is inlined

namespace windlass {
namespace WINDLASS_ISA {
namespace {

typedef float Floats4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float Tokens __attribute__((vector_size(4 * kSparseTokens), aligned(4), may_alias));
typedef int32_t Ints4 __attribute__((vector_size(16)));

[[gnu::always_inline]] inline Floats4 load4(const float* from) {
    return *reinterpret_cast<const Floats4*>(from);
}
[[gnu::always_inline]] inline void store4(float* to, Floats4 x) {
    *reinterpret_cast<Floats4*>(to) = x;
}

// Four rows of four, turned.
[[gnu::always_inline]] inline void turn4(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
    const Floats4 a = load4(from), b = load4(from + from_stride), c = load4(from + 2 * from_stride),
                  d = load4(from + 3 * from_stride);
    constexpr Ints4 kLow = {0, 4, 1, 5}, kHigh = {2, 6, 3, 7}, kFirst = {0, 1, 4, 5}, kSecond = {2, 3, 6, 7};
    const Floats4 ab_low = __builtin_shuffle(a, b, kLow), ab_high = __builtin_shuffle(a, b, kHigh),
                  cd_low = __builtin_shuffle(c, d, kLow), cd_high = __builtin_shuffle(c, d, kHigh);
    store4(to, __builtin_shuffle(ab_low, cd_low, kFirst));
    store4(to + to_stride, __builtin_shuffle(ab_low, cd_low, kSecond));
    store4(to + 2 * to_stride, __builtin_shuffle(ab_high, cd_high, kFirst));
    store4(to + 3 * to_stride, __builtin_shuffle(ab_high, cd_high, kSecond));
}

void turn_in(const float* from, float* to, int64_t cols) {
    int64_t col = 0;
    for (; col + 4 <= cols; col += 4)
        for (int64_t t = 0; t < kSparseTokens; t += 4)
            turn4(from + t * kSparseBlock + col, kSparseBlock, to + col * kSparseTokens + t, kSparseTokens);
    for (; col < cols; ++col)
        for (int64_t t = 0; t < kSparseTokens; ++t) to[col * kSparseTokens + t] = from[t * kSparseBlock + col];
}

void turn_out(const float* from, float* to, int64_t cols) {
    int64_t col = 0;
    for (; col + 4 <= cols; col += 4)
        for (int64_t t = 0; t < kSparseTokens; t += 4)
            turn4(from + col * kSparseTokens + t, kSparseTokens, to + t * kSparseBlock + col, kSparseBlock);
    for (; col < cols; ++col)
        for (int64_t t = 0; t < kSparseTokens; ++t) to[t * kSparseBlock + col] = from[col * kSparseTokens + t];
}

// A vector of tokens, written out: a compiler that is left to choose goes along the list, and gathers.
void sums(const uint32_t* begin, const uint32_t* source, const float* values, const float* from, float* to,
          int64_t count) {
    const auto tokens = [from](uint32_t column) {
        return *reinterpret_cast<const Tokens*>(from + static_cast<int64_t>(column) * kSparseTokens);
    };
    for (int64_t o = 0; o < count; ++o) {
        Tokens sum = values[begin[o]] * tokens(source[begin[o]]);
        for (uint32_t e = begin[o] + 1; e < begin[o + 1]; ++e) sum += values[e] * tokens(source[e]);
        *reinterpret_cast<Tokens*>(to + o * kSparseTokens) = sum;
    }
}

}  // namespace

extern const SparseLoops kSparseLoops = {turn_in, turn_out, sums};

}  // namespace WINDLASS_ISA
}  // namespace windlass
