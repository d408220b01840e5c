#include "op/rms_norm_cuda.h"
#include "op/sums_kernel_cuda.h"

namespace windlass {
namespace rms_norm_kernels {

constexpr unsigned kThreads = 256;
constexpr CudaGrid grid_of(int64_t rows) {
    return {.blocks = rows, .threads = kThreads, .shared_bytes = kThreads / kWarp * sizeof(float)};
}

// A row of these is a group of a token.
struct GroupPlace {
    int64_t token, col;
};
__device__ GroupPlace place_of(const RmsNormArgs& args, int64_t row) {
    if (args.groups == 1) return {row, 0};
    const int64_t token = quotient(row, args.groups);
    return {token, (row - token * args.groups) * args.cols};
}

// Number i of a row.
template <typename T>
__device__ float at(const CudaValue& value, const GroupPlace& place, int64_t i) {
    return read<T>(value, place.token, place.col + i);
}

__device__ float weight_at(const RmsNormArgs& args, int64_t i) {
    const float w = read(args.w, i);
    return args.unit_offset ? 1.0f + w : w;
}

// A row's numbers, eight at a time.
template <typename T>
struct Row {
    const RmsNormArgs& args;
    const GroupPlace place;

    __device__ T* of(const CudaValue& value) const {
        return static_cast<T*>(value.data) + place.token * value.stride + place.col;
    }
    __device__ void read(const CudaValue& value, int64_t i, float (&to)[kEight]) const {
        read_eight(of(value) + i, args.cols - i, args.aligned, to);
    }
    __device__ void write(const CudaValue& value, int64_t i, float (&from)[kEight]) const {
        T* const to = of(value) + i;
        if (value.adds) {
            float there[kEight];
            read_eight(to, args.cols - i, args.aligned, there);
            WINDLASS_UNROLL
            for (int n = 0; n < kEight; ++n) from[n] += there[n];
        }
        write_eight(to, args.cols - i, args.aligned, from);
    }
    __device__ void read_weights(int64_t i, float (&to)[kEight]) const {
        read_eight(args.w, i, args.cols - i, args.aligned, to);
        if (!args.unit_offset) return;
        WINDLASS_UNROLL
        for (int n = 0; n < kEight; ++n) to[n] += 1.0f;
    }
    template <typename Take>
    __device__ void for_eights(Take take) const {
        for (int64_t i = threadIdx.x * kEight; i < args.cols; i += kThreads * kEight) take(i);
    }
};

// (mean(x^2) + eps)^(-1/2), in every thread of the block.
template <typename T>
__device__ float rstd_of(const Row<T>& row) {
    float squares = 0;
    row.for_eights([&](int64_t i) {
        float x[kEight];
        row.read(row.args.x, i, x);
        WINDLASS_UNROLL
        for (int n = 0; n < kEight; ++n) squares += x[n] * x[n];
    });
    return 1.0f / sqrtf(block_sum(squares, shared_memory<float>()) / static_cast<float>(row.args.cols) + row.args.eps);
}

// y = x r w
template <typename T>
__global__ void forward_kernel(RmsNormArgs args) {
    const Row<T> row{args, place_of(args, blockIdx.x)};
    const float r = rstd_of(row);
    if (args.rstd != nullptr && threadIdx.x == 0) args.rstd[blockIdx.x] = r;
    row.for_eights([&](int64_t i) {
        float x[kEight], w[kEight];
        row.read(args.x, i, x);
        row.read_weights(i, w);
        WINDLASS_UNROLL
        for (int n = 0; n < kEight; ++n) x[n] = x[n] * r * w[n];
        row.write(args.y, i, x);
    });
}

// dx = r (g - x r^2 mean(g x)) with g = w dy
template <typename T>
__global__ void backward_kernel(RmsNormArgs args) {
    const Row<T> row{args, place_of(args, blockIdx.x)};
    const auto read = [&](int64_t i, float(&g)[kEight], float(&x)[kEight]) {
        float w[kEight];
        row.read_weights(i, w);
        row.read(args.y, i, g);
        row.read(args.x, i, x);
        WINDLASS_UNROLL
        for (int n = 0; n < kEight; ++n) g[n] = w[n] * g[n];
    };
    float products = 0;
    row.for_eights([&](int64_t i) {
        float g[kEight], x[kEight];
        read(i, g, x);
        WINDLASS_UNROLL
        for (int n = 0; n < kEight; ++n) products += g[n] * x[n];
    });
    const float r = args.rstd[blockIdx.x];
    const float shift = block_sum(products, shared_memory<float>()) / static_cast<float>(args.cols) * r * r;
    row.for_eights([&](int64_t i) {
        float g[kEight], x[kEight];
        read(i, g, x);
        WINDLASS_UNROLL
        for (int n = 0; n < kEight; ++n) g[n] = r * (g[n] - x[n] * shift);
        row.write(args.grad_x, i, g);
    });
}

// dw += dy x r
template <typename T>
struct WeightTerm {
    static constexpr const char* kName = "rms_norm weight gradient";
    static constexpr int kSums = 1;
    __device__ static void add(const RmsNormArgs& args, int64_t row, int64_t col, float* sums) {
        const GroupPlace place = place_of(args, row);
        sums[0] += at<T>(args.y, place, col) * (at<T>(args.x, place, col) * args.rstd[row]);
    }
    __host__ __device__ static const CudaSum& sum(const RmsNormArgs& args, int) { return args.sum; }
};

// y' = w r (x' - x r^2 mean(x x')) + w' x r, of each direction
template <typename T>
__global__ void tangent_kernel(RmsNormArgs args) {
    const GroupPlace place = place_of(args, blockIdx.x);
    const float r = rstd_of(Row<T>{args, place});
    for (int64_t d = 0; d < args.k; ++d) {
        const GroupPlace moved = place_of(args, d * args.rows + blockIdx.x);
        float products = 0;
        for (int64_t i = threadIdx.x; i < args.cols; i += kThreads)
            products += at<T>(args.x, place, i) * at<T>(args.tangent_x, moved, i);
        const float shift = block_sum(products, shared_memory<float>()) / static_cast<float>(args.cols) * r * r;
        const T* const tangent_w = static_cast<const T*>(args.tangent_w) + d * args.cols;
        for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) {
            const float x = at<T>(args.x, place, i);
            const float along = weight_at(args, i) * r * (at<T>(args.tangent_x, moved, i) - x * shift);
            write<T>(args.y, moved.token, moved.col + i,
                     args.tangent_w == nullptr ? along : along + widen(tangent_w[i]) * (x * r));
        }
    }
}

// With whether all that is read and written eight at a time can be moved so.
template <typename T>
RmsNormArgs with_alignment(RmsNormArgs args) {
    args.aligned = args.cols % kEight == 0 && has_aligned_packs(args.w);
    for (const CudaValue* value : {&args.x, &args.y, &args.grad_x})
        args.aligned = args.aligned && has_aligned_packs(*value, sizeof(T));
    return args;
}

}  // namespace rms_norm_kernels

void launch_rms_norm_forward(bool is_bf16, const RmsNormArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T,
                     launch(stream, rms_norm_kernels::grid_of(args.rows), rms_norm_kernels::forward_kernel<T>,
                            rms_norm_kernels::with_alignment<T>(args), "rms_norm forward"));
}

void launch_rms_norm_backward(bool is_bf16, const RmsNormArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T, {
        if (args.grad_x.data != nullptr)
            launch(stream, rms_norm_kernels::grid_of(args.rows), rms_norm_kernels::backward_kernel<T>,
                   rms_norm_kernels::with_alignment<T>(args), "rms_norm backward");
        launch_chunk_sums<rms_norm_kernels::WeightTerm<T>>(args, stream);
    });
}

void launch_rms_norm_tangent(bool is_bf16, const RmsNormArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T,
                     launch(stream, rms_norm_kernels::grid_of(args.rows), rms_norm_kernels::tangent_kernel<T>,
                            rms_norm_kernels::with_alignment<T>(args), "rms_norm tangent"));
}

}  // namespace windlass
