#include "op/magnitude_cuda.h"
#include "op/pointwise_kernel_cuda.h"
#include "op/sums_kernel_cuda.h"

namespace windlass {
namespace magnitude_kernels {

constexpr unsigned kThreads = 256, kWarps = kThreads / kWarp;
// Of W [F, inputs]: rows of a block, which share what they read of A, and columns of a thread, which share it of B.
constexpr int kRows = 8, kColumns = 4;

// What all tokens share of output j. Sums are in f64, rounded once: an order of summation decides nothing.
template <typename T>
__device__ void write_slopes(const MagnitudeArgs& args, int64_t j, double squares) {
    const float norm = widen(narrow<T>(static_cast<float>(sqrt(squares))));
    args.c[j] = norm > 0 ? read(args.m, j) / norm : 0.0f;
    args.inverse[j] = norm > 0 ? 1.0f / norm : 0.0f;
}

// Adds a thread's squares of columns begin, begin + kThreads, ... of W + s B A.
__device__ void add_squares(const MagnitudeArgs& args, int64_t first, int64_t begin, double (&squares)[kRows]) {
    float sums[kRows][kColumns];
    WINDLASS_UNROLL
    for (int q = 0; q < kRows; ++q) {
        WINDLASS_UNROLL
        for (int n = 0; n < kColumns; ++n) {
            const int64_t row = first + q, col = begin + n * static_cast<int64_t>(kThreads);
            sums[q][n] = row < args.cols && col < args.inputs ? read(args.w, row * args.inputs + col) : 0.0f;
        }
    }
    for (int64_t k = 0; k < args.rank; ++k) {
        float a[kColumns];
        WINDLASS_UNROLL
        for (int n = 0; n < kColumns; ++n) {
            const int64_t col = begin + n * static_cast<int64_t>(kThreads);
            a[n] = col < args.inputs ? read(args.a, k * args.inputs + col) : 0.0f;
        }
        WINDLASS_UNROLL
        for (int q = 0; q < kRows; ++q) {
            const float b = first + q < args.cols ? args.s * read(args.b, (first + q) * args.rank + k) : 0.0f;
            WINDLASS_UNROLL
            for (int n = 0; n < kColumns; ++n) sums[q][n] = __fmaf_rn(b, a[n], sums[q][n]);
        }
    }
    WINDLASS_UNROLL
    for (int q = 0; q < kRows; ++q) {
        WINDLASS_UNROLL
        for (int n = 0; n < kColumns; ++n)
            squares[q] += static_cast<double>(sums[q][n]) * static_cast<double>(sums[q][n]);
    }
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 2) row_norms_kernel(MagnitudeArgs args) {
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kRows;
    double squares[kRows] = {};
    for (int64_t begin = threadIdx.x; begin < args.inputs; begin += kThreads * kColumns)
        add_squares(args, first, begin, squares);
    double* const room = shared_memory<double>();  // [kWarps][kRows]
    WINDLASS_UNROLL
    for (int q = 0; q < kRows; ++q) {
        for (int apart = kWarp / 2; apart > 0; apart /= 2)
            squares[q] += __shfl_xor_sync(0xffffffffu, squares[q], apart);
        if (threadIdx.x % kWarp == 0) room[threadIdx.x / kWarp * kRows + q] = squares[q];
    }
    __syncthreads();
    const int64_t row = first + threadIdx.x;
    if (threadIdx.x >= kRows || row >= args.cols) return;
    double sum = 0;
    for (unsigned warp = 0; warp < kWarps; ++warp) sum += room[warp * kRows + threadIdx.x];
    write_slopes<T>(args, row, sum);
}

// Of W [inputs, F]: a lane takes a column, each warp every eighth row.
template <typename T>
__global__ void column_norms_kernel(MagnitudeArgs args) {
    const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    const int64_t col = static_cast<int64_t>(blockIdx.x) * kWarp + lane;
    double squares = 0;
    for (int64_t row = warp; col < args.cols && row < args.inputs; row += kWarps) {
        float sum = read(args.w, row * args.cols + col);
        for (int64_t k = 0; k < args.rank; ++k)
            sum = __fmaf_rn(args.s * read(args.b, col * args.rank + k), read(args.a, k * args.inputs + row), sum);
        squares += static_cast<double>(sum) * static_cast<double>(sum);
    }
    double* const room = shared_memory<double>();  // [kWarps][kWarp]
    room[threadIdx.x] = squares;
    __syncthreads();
    if (warp > 0 || col >= args.cols) return;
    double sum = 0;
    for (unsigned other = 0; other < kWarps; ++other) sum += room[other * kWarp + lane];
    write_slopes<T>(args, col, sum);
}

__device__ float bias_at(const MagnitudeArgs& args, int64_t col) {
    return args.bias.base == nullptr ? 0.0f : read(args.bias, col);
}

// y = c x + (1 - c) b: where c is 1, x as it is
struct Forward {
    static constexpr const char* kName = "magnitude";
    static constexpr int kIn = 1, kOut = 1;
    __device__ static void apply(const MagnitudeArgs& args, int64_t, int64_t col, const float* in, float* out) {
        const float c = args.c[col];
        out[0] = c * in[0] + (1.0f - c) * bias_at(args, col);
    }
};

// dx = c dy, and of tangents
struct Slopes {
    static constexpr const char* kName = "magnitude slopes";
    static constexpr int kIn = 1, kOut = 1;
    __device__ static void apply(const MagnitudeArgs& args, int64_t, int64_t col, const float* in, float* out) {
        out[0] = args.c[col] * in[0];
    }
};

// y' = c x' + (m' / norm) (x - b), of each direction; in: x, x'
template <typename T>
struct Tangent {
    static constexpr const char* kName = "magnitude tangent";
    static constexpr int kIn = 2, kOut = 1;
    __device__ static void apply(const MagnitudeArgs& args, int64_t row, int64_t col, const float* in, float* out) {
        const float moved = widen(static_cast<const T*>(args.tangent_m)[row / args.tokens * args.cols + col]);
        out[0] = args.c[col] * in[1] + moved * args.inverse[col] * (in[0] - bias_at(args, col));
    }
};

// dm += dy (x - b) / norm
template <typename T>
struct GradientTerm {
    static constexpr const char* kName = "magnitude gradient";
    static constexpr int kSums = 1;
    __device__ static void add(const MagnitudeArgs& args, int64_t row, int64_t col, float* sums) {
        const float x = read<T>(args.x, row, col) - bias_at(args, col);
        sums[0] += read<T>(args.in[0], row, col) * x * args.inverse[col];
    }
    __host__ __device__ static const CudaSum& sum(const MagnitudeArgs& args, int) { return args.sum; }
};

CudaGrid norms_grid(const MagnitudeArgs& args) {
    const int64_t outputs = args.in_out ? kWarp : kRows;  // of a block
    return {.blocks = (args.cols + outputs - 1) / outputs,
            .threads = kThreads,
            .shared_bytes = (args.in_out ? kThreads : kWarps * kRows) * static_cast<unsigned>(sizeof(double))};
}

}  // namespace magnitude_kernels

void launch_magnitude_norms(bool is_bf16, const MagnitudeArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(
        is_bf16, T,
        launch(stream, magnitude_kernels::norms_grid(args),
               args.in_out ? magnitude_kernels::column_norms_kernel<T> : magnitude_kernels::row_norms_kernel<T>, args,
               "magnitude norms"));
}

void launch_magnitude_forward(bool is_bf16, const MagnitudeArgs& args, CudaStreamHandle stream) {
    launch_pointwise<magnitude_kernels::Forward>(is_bf16, args, stream);
}

void launch_magnitude_slopes(bool is_bf16, const MagnitudeArgs& args, CudaStreamHandle stream) {
    launch_pointwise<magnitude_kernels::Slopes>(is_bf16, args, stream);
}

void launch_magnitude_gradient(bool is_bf16, const MagnitudeArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T, launch_chunk_sums<magnitude_kernels::GradientTerm<T>>(args, stream));
}

void launch_magnitude_tangent(bool is_bf16, const MagnitudeArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T, launch_pointwise_of<magnitude_kernels::Tangent<T>, T>(args, stream));
}

}  // namespace windlass
