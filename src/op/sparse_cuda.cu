#include "op/numbers_cuda.h"
#include "op/sparse_cuda.h"
#include "op/sparse_permutation.h"

namespace windlass {
namespace sparse_kernels {

constexpr unsigned kThreads = 256;
// Tokens of a thread: it finds each position once for all of them. Their rows stay in the first-level cache.
constexpr int kTokens = 8;

// The sums of one output column of some tokens.
template <typename T>
struct TokenSums {
    const SparseArgs& args;
    int64_t row;
    int count;
    float sums[kTokens];
    bool is_first = true;

    __device__ TokenSums(const SparseArgs& given)
        : args(given), row(static_cast<int64_t>(blockIdx.x) * kTokens), count(kTokens) {
        if (args.rows - row < kTokens) count = static_cast<int>(args.rows - row);
    }
    __device__ void add(float value, int64_t col) {
        for (int t = 0; t < kTokens; ++t) {
            if (t >= count) continue;
            const float product = value * read<T>(args.x, row + t, col);
            sums[t] = is_first ? product : sums[t] + product;
        }
        is_first = false;
    }
    __device__ void write_to(int64_t col) const {
        for (int t = 0; t < kTokens; ++t) {
            if (t < count) write<T>(args.y, row + t, col, sums[t]);
        }
    }
};

// y_c = the sum over lanes, and over the rows at places c, c + cols, c + 2 cols ... of each, of A_ik x_i
template <typename T>
__global__ void project_kernel(SparseArgs args) {
    const int64_t col = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
    if (col >= args.matrix_cols) return;
    TokenSums<T> sums(args);
    for (int64_t k = 0; k < args.nonzeros; ++k) {
        const SparseLane lane = sparse_lane(args.seed, k, args.matrix_rows);
        for (int64_t place = col; place < args.matrix_rows; place += args.matrix_cols) {
            const int64_t i = row_in_lane(lane, static_cast<uint32_t>(place));
            sums.add(read(args.values, i * args.nonzeros + k), i);
        }
    }
    sums.write_to(col);
}

// y_i = the sum over lanes of A_ik x_c, c the column of lane k
template <typename T>
__global__ void expand_kernel(SparseArgs args) {
    const int64_t i = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
    if (i >= args.matrix_rows) return;
    TokenSums<T> sums(args);
    for (int64_t k = 0; k < args.nonzeros; ++k) {
        const SparseLane lane = sparse_lane(args.seed, k, args.matrix_rows);
        const uint32_t place = place_in_lane(lane, static_cast<uint32_t>(i));
        sums.add(read(args.values, i * args.nonzeros + k), place % static_cast<uint32_t>(args.matrix_cols));
    }
    sums.write_to(i);
}

CudaGrid grid_of(const SparseArgs& args, int64_t cols) {
    return {
        .blocks = (args.rows + kTokens - 1) / kTokens, .threads = kThreads, .rows = (cols + kThreads - 1) / kThreads};
}

}  // namespace sparse_kernels

void launch_sparse_project(bool is_bf16, const SparseArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T,
                     launch(stream, sparse_kernels::grid_of(args, args.matrix_cols), sparse_kernels::project_kernel<T>,
                            args, "sparse project"));
}

void launch_sparse_expand(bool is_bf16, const SparseArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T,
                     launch(stream, sparse_kernels::grid_of(args, args.matrix_rows), sparse_kernels::expand_kernel<T>,
                            args, "sparse expand"));
}

}  // namespace windlass
