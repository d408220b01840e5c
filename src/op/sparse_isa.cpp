#include "base/turn_vector.h"
#include "base/vector_register.h"
#include "op/sparse.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

typedef float Tokens __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
constexpr int64_t kParts = kSparseTokens / kLanes;  // registers of all tokens, at most 4

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
        return reinterpret_cast<const Tokens*>(from + static_cast<int64_t>(column) * kSparseTokens);
    };
    for (int64_t o = 0; o < count; ++o) {
        Tokens sum[kParts];
        const Tokens* x = tokens(source[begin[o]]);
#pragma GCC unroll 4
        for (int64_t part = 0; part < kParts; ++part) sum[part] = values[begin[o]] * x[part];
        for (uint32_t e = begin[o] + 1; e < begin[o + 1]; ++e) {
            x = tokens(source[e]);
#pragma GCC unroll 4
            for (int64_t part = 0; part < kParts; ++part) sum[part] += values[e] * x[part];
        }
        __builtin_memcpy(to + o * kSparseTokens, sum, sizeof sum);
    }
}

}  // namespace

extern const SparseLoops kSparseLoops = {turn_in, turn_out, sums};

}  // namespace WINDLASS_ISA
}  // namespace windlass
