// gemv.h: the product of one row with a matrix: what decoding a token is made of.
//
// Such a product is a read of the matrix: each of its numbers meets one other. It is cut by shape alone, and sums run
// in f32 in an order that depends on the shape and the instruction set: bits do not depend on the number of threads.
// They are not those of gemm (gemm.h). Included by sources compiled per instruction set: types and declarations only.
#pragma once

#include <cstdint>
#include <span>

namespace windlass {

class Team;
struct GemmArgs;

// C = A B + bias as gemm has it: A [1, K] as it is, nothing accumulated, A and B of one type, the bias f32. `space` has
// room for gemv_space_bytes(K, N, transpose_b).
void gemv(const GemmArgs& args, float* space, Team& team);
// Several products of one row with matrices that lie by outputs (transpose_b), each to its bits: less to hand out.
void gemv_together(std::span<const GemmArgs> products, Team& team);
int64_t gemv_space_bytes(int64_t k, int64_t n, bool transpose_b);

// A matrix of f32 or bf16 (its bits): rows of `size` numbers, `stride` apart.
template <typename Number>
struct GemvMatrix {
    const Number* data;
    int64_t count, size, stride;
};

template <typename Number>
struct GemvLoops {
    // y[n] = sum over i of x[i] matrix[n][i]
    void (*dots)(const GemvMatrix<Number>& matrix, const Number* x, float* y);
    // y[n] = sum over i of x[i] matrix[i][n], with y in the loops' own order of columns.
    void (*combine)(const GemvMatrix<Number>& matrix, const Number* x, float* y);
    // y[n] = sum over `count` rows of parts, `stride` apart, whose columns are in that order; those of y are in the
    // matrix's. The first one is a multiple of kGemvColumnStep of the matrix's.
    void (*add_parts)(const float* parts, int64_t stride, int64_t count, float* y, int64_t size);
};
inline constexpr int64_t kGemvColumnStep = 64;

struct GemvKernels {
    GemvLoops<uint16_t> narrow;
    GemvLoops<float> wide;
};

namespace baseline {
extern const GemvKernels kGemvKernels;
}
namespace avx2 {
extern const GemvKernels kGemvKernels;
}
namespace avx512 {
extern const GemvKernels kGemvKernels;
}  // namespace avx512

}  // namespace windlass
