// sparse.h: the CPU kernels of sparse and their loops; what they compute: ops.h.
#pragma once

#include <cstdint>

namespace windlass {

class Stream;
struct OpCall;

void sparse_forward_cpu(const OpCall& call, Stream& stream);
void sparse_backward_cpu(const OpCall& call, Stream& stream);
void sparse_tangent_cpu(const OpCall& call, Stream& stream);

// Tokens that are summed side by side, one after the other in memory: a vector of AVX-512. Bits do not depend on it.
inline constexpr int64_t kSparseTokens = 16;
// Columns that are turned at a time: kSparseTokens rows of them stay in the first-level cache.
inline constexpr int64_t kSparseBlock = 256;

struct SparseLoops {
    // from [kSparseTokens, kSparseBlock] -> to [cols, kSparseTokens]
    void (*turn_in)(const float* from, float* to, int64_t cols);
    // from [cols, kSparseTokens] -> to [kSparseTokens, kSparseBlock]
    void (*turn_out)(const float* from, float* to, int64_t cols);
    // to[o][t] = the sum of values[e] * from[source[e]][t] over e from begin[o] up to begin[o + 1], in that order
    void (*sums)(const uint32_t* begin, const uint32_t* source, const float* values, const float* from, float* to,
                 int64_t count);
};

namespace baseline {
extern const SparseLoops kSparseLoops;
}
namespace avx2 {
extern const SparseLoops kSparseLoops;
}
namespace avx512 {
extern const SparseLoops kSparseLoops;
}

}  // namespace windlass
