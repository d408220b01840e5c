// sums_cuda.h: sums over the rows of values, in an order that shapes alone decide: the gradients of weights of one row.
// Each chunk of rows has sums of its own, and those are added up in the order of chunks.
#pragma once

#include "op/values_cuda.h"

namespace windlass {

constexpr int64_t cuda_sum_rows(int64_t rows) {  // of a chunk
    constexpr int64_t kRows = 32, kChunks = 128;
    return rows > kRows * kChunks ? (rows + kChunks - 1) / kChunks : kRows;
}
constexpr int64_t cuda_sum_chunks(int64_t rows) {
    return (rows + cuda_sum_rows(rows) - 1) / cuda_sum_rows(rows);
}
// Numbers of f32 scratch for the sums of all chunks: a multiple of 64.
constexpr int64_t cuda_sum_floats(int64_t rows, int64_t cols) {
    return (cuda_sum_chunks(rows) * cols + 63) / 64 * 64;
}

// A gradient [cols], in f32; `target` null: it is not wanted.
struct CudaSum {
    float* target = nullptr;
    bool first = false;        // else it is added to what is there
    float* partial = nullptr;  // [chunks, cols]
};

// The sum of the rows of x.
struct ColumnSumArgs {
    CudaValue x;
    int64_t rows = 0, cols = 0;
    CudaSum sum;
};
void launch_column_sum(bool is_bf16, const ColumnSumArgs& args, CudaStreamHandle stream);
// target (+)= the sums of all chunks. Does nothing where it is not wanted.
void launch_finish_sum(const CudaSum& sum, int64_t rows, int64_t cols, CudaStreamHandle stream);

}  // namespace windlass
