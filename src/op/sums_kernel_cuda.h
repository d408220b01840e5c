// sums_kernel_cuda.h: the kernel of sums over rows. For .cu files alone.
//
// Args has `rows`, `cols`, and kSums sums in `sum`; Term has static void add(args, row, col, float* sums).
#pragma once

#include "op/numbers_cuda.h"
#include "op/sums_cuda.h"

namespace windlass {

inline constexpr unsigned kSumThreads = 128;

// A thread a column, a row of blocks a chunk.
template <typename Term, typename Args>
__global__ void chunk_sums_kernel(Args args) {
    const int64_t col = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (col >= args.cols) return;
    const int64_t chunk = blockIdx.y, chunk_rows = cuda_sum_rows(args.rows);
    const int64_t end = min(args.rows, (chunk + 1) * chunk_rows);
    float sums[Term::kSums] = {};
    for (int64_t row = chunk * chunk_rows; row < end; ++row) Term::add(args, row, col, sums);
    for (int i = 0; i < Term::kSums; ++i)
        if (Term::sum(args, i).partial != nullptr) Term::sum(args, i).partial[chunk * args.cols + col] = sums[i];
}

template <typename Term, typename Args>
void launch_chunk_sums(const Args& args, CudaStreamHandle stream) {
    bool wanted = false;
    for (int i = 0; i < Term::kSums; ++i) wanted = wanted || Term::sum(args, i).target != nullptr;
    if (!wanted) return;
    launch(stream,
           {.blocks = (args.cols + kSumThreads - 1) / kSumThreads,
            .threads = kSumThreads,
            .rows = cuda_sum_chunks(args.rows)},
           chunk_sums_kernel<Term, Args>, args, Term::kName);
    for (int i = 0; i < Term::kSums; ++i) launch_finish_sum(Term::sum(args, i), args.rows, args.cols, stream);
}

}  // namespace windlass
