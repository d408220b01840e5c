// gemv.h: the product of one row, or of a few, with a matrix: what decoding a token is made of.
//
// Such a product is a read of the matrix: each number of it meets a few others. It is cut by outputs, by shape alone,
// and sums run in f32 in an order that depends on the shape and the instruction set: bits depend neither on the number
// of threads nor on the rows that share a call. They are not those of gemm (gemm.h), so training and evaluation keep
// to that one. Included by sources compiled per instruction set: types and declarations only.
#pragma once

#include <cstdint>

namespace windlass {

class Team;
struct GemmArgs;

// Rows for which this is what a product of decoding calls.
inline constexpr int64_t kGemvRowsMax = 4;

// C = A B + bias as gemm has it: A [M, K] as it is, M at most kGemvRowsMax, nothing accumulated; A, B and C of
// whatever types gemm takes, the bias f32. `space` has room for gemv_space_bytes(M, K).
void gemv(const GemmArgs& args, float* space, Team& team);
int64_t gemv_space_bytes(int64_t m, int64_t k);

// A matrix of f32 or bf16 (its bits): rows of `size` numbers, `stride` apart.
template <typename Number>
struct GemvMatrix {
    const Number* data;
    int64_t count, size, stride;
};

// Rows of f32, `stride` apart: A, and the outputs that a panel of B gives.
struct GemvRows {
    float* data;
    int64_t count, stride;
};

template <typename Number>
struct GemvLoops {
    // A row of x in f32, in the order that `dots` wants it.
    void (*arrange)(const Number* from, float* to, int64_t size);
    // y[m][n] = sum over i of x[m][i] matrix[n][i]
    void (*dots)(const GemvMatrix<Number>& matrix, const GemvRows& x, const GemvRows& y);
    // y[m][n] = sum over i of x[m][i] matrix[i][n]
    void (*combine)(const GemvMatrix<Number>& matrix, const GemvRows& x, const GemvRows& y);
};

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
}

}  // namespace windlass
