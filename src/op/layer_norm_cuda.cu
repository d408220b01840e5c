#include "op/layer_norm_cuda.h"
#include "op/sums_kernel_cuda.h"

namespace windlass {
namespace layer_norm_kernels {

constexpr unsigned kThreads = 256;
constexpr CudaGrid grid_of(int64_t rows) {
    return {.blocks = rows, .threads = kThreads, .shared_bytes = kThreads / kWarp * sizeof(float)};
}

struct Moments {
    float mean, rstd;
};

__device__ float mean_over(const LayerNormArgs& args, float sum) {
    return block_sum(sum, shared_memory<float>()) / static_cast<float>(args.cols);
}

// The mean first, then the mean square of what is left: no cancellation where the mean is large.
template <typename T>
__device__ Moments moments_of(const LayerNormArgs& args, int64_t row) {
    float sum = 0, squares = 0;
    for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) sum += read<T>(args.x, row, i);
    const float mean = mean_over(args, sum);
    for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) {
        const float x = read<T>(args.x, row, i) - mean;
        squares += x * x;
    }
    return {mean, 1.0f / sqrtf(mean_over(args, squares) + args.eps)};
}

template <typename T>
__device__ float normalized(const LayerNormArgs& args, const Moments& m, int64_t row, int64_t i) {
    return (read<T>(args.x, row, i) - m.mean) * m.rstd;
}

__device__ Moments kept_moments(const LayerNormArgs& args, int64_t row) {
    const float* const kept = args.moments + row * args.moments_stride;
    return {kept[0], kept[1]};
}

// y = w h + b with h = (x - mean) rstd
template <typename T>
__global__ void forward_kernel(LayerNormArgs args) {
    const int64_t row = blockIdx.x;
    const Moments m = moments_of<T>(args, row);
    if (args.moments != nullptr && threadIdx.x == 0) {
        float* const kept = args.moments + row * args.moments_stride;
        kept[0] = m.mean;
        kept[1] = m.rstd;
    }
    for (int64_t i = threadIdx.x; i < args.cols; i += kThreads)
        write<T>(args.y, row, i, read(args.w, i) * normalized<T>(args, m, row, i) + read(args.b, i));
}

// dx = rstd (g - mean(g) - h mean(g h)) with g = w dy
template <typename T>
__global__ void backward_kernel(LayerNormArgs args) {
    const int64_t row = blockIdx.x;
    const Moments m = kept_moments(args, row);
    float sum = 0, projection = 0;
    for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) {
        const float g = read(args.w, i) * read<T>(args.y, row, i);
        sum += g;
        projection += g * normalized<T>(args, m, row, i);
    }
    const float mean_g = mean_over(args, sum), mean_gh = mean_over(args, projection);
    for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) {
        const float g = read(args.w, i) * read<T>(args.y, row, i);
        write<T>(args.grad_x, row, i, m.rstd * (g - mean_g - normalized<T>(args, m, row, i) * mean_gh));
    }
}

// dw += dy h;  db += dy
template <typename T>
struct WeightTerm {
    static constexpr const char* kName = "layer_norm weight gradients";
    static constexpr int kSums = 2;
    __device__ static void add(const LayerNormArgs& args, int64_t row, int64_t col, float* sums) {
        const float dy = read<T>(args.y, row, col);
        sums[0] += dy * normalized<T>(args, kept_moments(args, row), row, col);
        sums[1] += dy;
    }
    __host__ __device__ static const CudaSum& sum(const LayerNormArgs& args, int i) {
        return i == 0 ? args.sum_w : args.sum_b;
    }
};

// y' = w h' + w' h + b' with h' = rstd (x' - mean(x') - h mean(h x')), of each direction
template <typename T>
__global__ void tangent_kernel(LayerNormArgs args) {
    const int64_t row = blockIdx.x;
    const Moments m = moments_of<T>(args, row);
    for (int64_t d = 0; d < args.k; ++d) {
        const int64_t moved = d * args.rows + row;
        float sum = 0, projection = 0;
        for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) {
            const float x = read<T>(args.tangent_x, moved, i);
            sum += x;
            projection += x * normalized<T>(args, m, row, i);
        }
        const float mean_t = mean_over(args, sum), mean_th = mean_over(args, projection);
        const T* const tangent_w = static_cast<const T*>(args.tangent_w) + d * args.cols;
        const T* const tangent_b = static_cast<const T*>(args.tangent_b) + d * args.cols;
        for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) {
            const float h = normalized<T>(args, m, row, i);
            float y = read(args.w, i) * m.rstd * (read<T>(args.tangent_x, moved, i) - mean_t - h * mean_th);
            if (args.tangent_w != nullptr) y += widen(tangent_w[i]) * h;
            if (args.tangent_b != nullptr) y += widen(tangent_b[i]);
            write<T>(args.y, moved, i, y);
        }
    }
}

}  // namespace layer_norm_kernels

void launch_layer_norm_forward(bool is_bf16, const LayerNormArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T,
                     launch(stream, layer_norm_kernels::grid_of(args.rows), layer_norm_kernels::forward_kernel<T>, args,
                            "layer_norm forward"));
}

void launch_layer_norm_backward(bool is_bf16, const LayerNormArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T, {
        if (args.grad_x.data != nullptr)
            launch(stream, layer_norm_kernels::grid_of(args.rows), layer_norm_kernels::backward_kernel<T>, args,
                   "layer_norm backward");
        launch_chunk_sums<layer_norm_kernels::WeightTerm<T>>(args, stream);
    });
}

void launch_layer_norm_tangent(bool is_bf16, const LayerNormArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T,
                     launch(stream, layer_norm_kernels::grid_of(args.rows), layer_norm_kernels::tangent_kernel<T>, args,
                            "layer_norm tangent"));
}

}  // namespace windlass
