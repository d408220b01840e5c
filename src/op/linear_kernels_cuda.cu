#include "op/linear_kernels_cuda.h"
#include "op/numbers_cuda.h"

namespace windlass {
namespace linear_kernels {

constexpr int64_t kThreads = 256;

CudaGrid grid_of(int64_t count) {
    constexpr int64_t kBlocksMax = 4096;
    const int64_t blocks = (count + kThreads - 1) / kThreads;
    return {.blocks = blocks < kBlocksMax ? blocks : kBlocksMax, .threads = kThreads};
}

__device__ int64_t first_of_thread() {
    return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}
__device__ int64_t thread_count() {
    return static_cast<int64_t>(gridDim.x) * kThreads;
}

__global__ void join_kernel(JoinArgs args) {
    for (int64_t i = first_of_thread(); i < args.count; i += thread_count()) args.out[i] = read(args.weight, i);
}

__global__ void narrow_kernel(NarrowArgs args) {
    for (int64_t i = first_of_thread(); i < args.count; i += thread_count())
        args.to[i] = narrow<bf16>(args.from[i]).bits;
}

template <typename T>
__global__ void combine_kernel(CombineArgs args) {
    const int64_t count = args.directions * args.tokens * args.cols;
    for (int64_t i = first_of_thread(); i < count; i += thread_count()) {
        const int64_t row = i / args.cols, col = i % args.cols, direction = row / args.tokens;
        const float* const products = args.products + (row % args.tokens * args.directions + direction) * args.rank;
        float sum = 0;
        if (args.bias != nullptr) sum = widen(static_cast<const T*>(args.bias)[direction * args.cols + col]);
        for (int64_t r = 0; r < args.rank; ++r)
            sum += products[r] * args.outer[(direction * args.rank + r) * args.cols + col];
        write<T>(args.y, row, col, sum);
    }
}

}  // namespace linear_kernels

void launch_join(const JoinArgs& args, CudaStreamHandle stream) {
    launch(stream, linear_kernels::grid_of(args.count), linear_kernels::join_kernel, args, "join");
}

void launch_narrow(const NarrowArgs& args, CudaStreamHandle stream) {
    launch(stream, linear_kernels::grid_of(args.count), linear_kernels::narrow_kernel, args, "narrow");
}

void launch_combine(bool is_bf16, const CombineArgs& args, CudaStreamHandle stream) {
    const CudaGrid grid = linear_kernels::grid_of(args.directions * args.tokens * args.cols);
    WINDLASS_BY_TYPE(is_bf16, T, launch(stream, grid, linear_kernels::combine_kernel<T>, args, "combine"));
}

}  // namespace windlass
