#include "op/sums_kernel_cuda.h"

namespace windlass {
namespace sums_kernels {

template <typename T>
struct ColumnSum {
    static constexpr const char* kName = "column sums";
    static constexpr int kSums = 1;
    __device__ static void add(const ColumnSumArgs& args, int64_t row, int64_t col, float* sums) {
        sums[0] += read<T>(args.x, row, col);
    }
    __host__ __device__ static const CudaSum& sum(const ColumnSumArgs& args, int) { return args.sum; }
};

struct FinishArgs {
    CudaSum sum;
    int64_t chunks = 0, cols = 0;
};

__global__ void finish_sum_kernel(FinishArgs args) {
    const int64_t col = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (col >= args.cols) return;
    float total = args.sum.partial[col];
    for (int64_t chunk = 1; chunk < args.chunks; ++chunk) total += args.sum.partial[chunk * args.cols + col];
    float* const to = args.sum.target + col;
    *to = args.sum.first ? total : *to + total;
}

}  // namespace sums_kernels

void launch_column_sum(bool is_bf16, const ColumnSumArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T, launch_chunk_sums<sums_kernels::ColumnSum<T>>(args, stream));
}

void launch_finish_sum(const CudaSum& sum, int64_t rows, int64_t cols, CudaStreamHandle stream) {
    if (sum.target == nullptr) return;
    launch(stream, {.blocks = (cols + kSumThreads - 1) / kSumThreads, .threads = kSumThreads},
           sums_kernels::finish_sum_kernel, sums_kernels::FinishArgs{sum, cuda_sum_chunks(rows), cols}, "finish sums");
}

}  // namespace windlass
