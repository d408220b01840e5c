#include "base/turn_vector.h"
#include "op/sparse.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // passing vectors wider than the registers: everything here is inlined

namespace windlass {
namespace WINDLASS_ISA {
namespace {

typedef float Tokens __attribute__((vector_size(4 * kSparseTokens), aligned(4), may_alias));

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
