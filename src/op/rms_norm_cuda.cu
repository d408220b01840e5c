#include "op/rms_norm_cuda.h"
#include "op/sums_kernel_cuda.h"

namespace windlass {
namespace {

constexpr unsigned kThreads = 256;
constexpr CudaGrid grid_of(int64_t rows) {
    return {
        .blocks = static_cast<unsigned>(rows), .threads = kThreads, .shared_bytes = kThreads / kWarp * sizeof(float)};
}

// Number i of row `row`, a group of a token.
template <typename T>
__device__ float at(const RmsNormArgs& args, const CudaValue& value, int64_t row, int64_t i) {
    return read<T>(value, row / args.groups, row % args.groups * args.cols + i);
}
template <typename T>
__device__ void put(const RmsNormArgs& args, const CudaValue& value, int64_t row, int64_t i, float x) {
    write<T>(value, row / args.groups, row % args.groups * args.cols + i, x);
}

__device__ float weight_at(const RmsNormArgs& args, int64_t i) {
    const float w = read(args.w, i);
    return args.unit_offset ? 1.0f + w : w;
}

// (mean(x^2) + eps)^(-1/2), in every thread of the block.
template <typename T>
__device__ float rstd_of(const RmsNormArgs& args, int64_t row) {
    float squares = 0;
    for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) {
        const float x = at<T>(args, args.x, row, i);
        squares += x * x;
    }
    return 1.0f / sqrtf(block_sum(squares, shared_memory<float>()) / static_cast<float>(args.cols) + args.eps);
}

// y = x r w
template <typename T>
__global__ void forward_kernel(RmsNormArgs args) {
    const int64_t row = blockIdx.x;
    const float r = rstd_of<T>(args, row);
    if (args.rstd != nullptr && threadIdx.x == 0) args.rstd[row] = r;
    for (int64_t i = threadIdx.x; i < args.cols; i += kThreads)
        put<T>(args, args.y, row, i, at<T>(args, args.x, row, i) * r * weight_at(args, i));
}

// dx = r (g - x r^2 mean(g x)) with g = w dy
template <typename T>
__global__ void backward_kernel(RmsNormArgs args) {
    const int64_t row = blockIdx.x;
    float products = 0;
    for (int64_t i = threadIdx.x; i < args.cols; i += kThreads)
        products += weight_at(args, i) * at<T>(args, args.y, row, i) * at<T>(args, args.x, row, i);
    const float r = args.rstd[row];
    const float shift = block_sum(products, shared_memory<float>()) / static_cast<float>(args.cols) * r * r;
    for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) {
        const float g = weight_at(args, i) * at<T>(args, args.y, row, i);
        put<T>(args, args.grad_x, row, i, r * (g - at<T>(args, args.x, row, i) * shift));
    }
}

// dw += dy x r
template <typename T>
struct WeightTerm {
    static constexpr const char* kName = "rms_norm weight gradient";
    static constexpr int kSums = 1;
    __device__ static void add(const RmsNormArgs& args, int64_t row, int64_t col, float* sums) {
        sums[0] += at<T>(args, args.y, row, col) * (at<T>(args, args.x, row, col) * args.rstd[row]);
    }
    __host__ __device__ static const CudaSum& sum(const RmsNormArgs& args, int) { return args.sum; }
};

// y' = w r (x' - x r^2 mean(x x')) + w' x r, of each direction
template <typename T>
__global__ void tangent_kernel(RmsNormArgs args) {
    const int64_t row = blockIdx.x;
    const float r = rstd_of<T>(args, row);
    for (int64_t d = 0; d < args.k; ++d) {
        const int64_t moved = d * args.rows + row;
        float products = 0;
        for (int64_t i = threadIdx.x; i < args.cols; i += kThreads)
            products += at<T>(args, args.x, row, i) * at<T>(args, args.tangent_x, moved, i);
        const float shift = block_sum(products, shared_memory<float>()) / static_cast<float>(args.cols) * r * r;
        const T* const tangent_w = static_cast<const T*>(args.tangent_w) + d * args.cols;
        for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) {
            const float x = at<T>(args, args.x, row, i);
            const float along = weight_at(args, i) * r * (at<T>(args, args.tangent_x, moved, i) - x * shift);
            put<T>(args, args.y, moved, i, args.tangent_w == nullptr ? along : along + widen(tangent_w[i]) * (x * r));
        }
    }
}

}  // namespace

void launch_rms_norm_forward(bool is_bf16, const RmsNormArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T, launch(stream, grid_of(args.rows), forward_kernel<T>, args, "rms_norm forward"));
}

void launch_rms_norm_backward(bool is_bf16, const RmsNormArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T, {
        if (args.grad_x.data != nullptr)
            launch(stream, grid_of(args.rows), backward_kernel<T>, args, "rms_norm backward");
        launch_chunk_sums<WeightTerm<T>>(args, stream);
    });
}

void launch_rms_norm_tangent(bool is_bf16, const RmsNormArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T, launch(stream, grid_of(args.rows), tangent_kernel<T>, args, "rms_norm tangent"));
}

}  // namespace windlass
