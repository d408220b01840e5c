// sparse_cuda.h: launches of the CUDA kernels of sparse; what they compute: ops.h.
#pragma once

#include "op/values_cuda.h"

namespace windlass {

struct SparseArgs {
    CudaValue x, y;
    CudaWeight values;  // [matrix_rows, nonzeros]
    int64_t rows = 0;   // of x and y
    int64_t matrix_rows = 0, matrix_cols = 0, nonzeros = 0;
    uint64_t seed = 0;
};

// y = x A
void launch_sparse_project(bool is_bf16, const SparseArgs& args, CudaStreamHandle stream);
// y = x A^T
void launch_sparse_expand(bool is_bf16, const SparseArgs& args, CudaStreamHandle stream);

}  // namespace windlass
