#include "op/pointwise_kernel_cuda.h"
#include "op/scale_cuda.h"
#include "op/sums_kernel_cuda.h"

namespace windlass {
namespace scale_kernels {

__device__ float slope(const ScaleArgs& args, int64_t col) {
    return args.w.base == nullptr ? args.factor : args.factor * read(args.w, col);
}

// y = (factor w) x, of values, gradients or tangents
struct Product {
    static constexpr const char* kName = "scale";
    static constexpr int kIn = 1, kOut = 1;
    __device__ static void apply(const ScaleArgs& args, int64_t, int64_t col, const float* in, float* out) {
        out[0] = slope(args, col) * in[0];
    }
};

// y' = (factor w) x' + (factor w') x, of each direction; in: x, x'
template <typename T>
struct Tangent {
    static constexpr const char* kName = "scale tangent";
    static constexpr int kIn = 2, kOut = 1;
    __device__ static void apply(const ScaleArgs& args, int64_t row, int64_t col, const float* in, float* out) {
        const float tangent_w = widen(static_cast<const T*>(args.tangent_w)[row / args.tokens * args.cols + col]);
        out[0] = slope(args, col) * in[1] + args.factor * tangent_w * in[0];
    }
};

// dw += (factor dy) x
template <typename T>
struct WeightTerm {
    static constexpr const char* kName = "scale weight gradient";
    static constexpr int kSums = 1;
    __device__ static void add(const ScaleArgs& args, int64_t row, int64_t col, float* sums) {
        sums[0] += args.factor * read<T>(args.in[0], row, col) * read<T>(args.x, row, col);
    }
    __host__ __device__ static const CudaSum& sum(const ScaleArgs& args, int) { return args.sum; }
};

}  // namespace scale_kernels

void launch_scale(bool is_bf16, const ScaleArgs& args, CudaStreamHandle stream) {
    launch_pointwise<scale_kernels::Product>(is_bf16, args, stream);
}

void launch_scale_weight_gradient(bool is_bf16, const ScaleArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T, launch_chunk_sums<scale_kernels::WeightTerm<T>>(args, stream));
}

void launch_scale_tangent(bool is_bf16, const ScaleArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T, launch_pointwise_of<scale_kernels::Tangent<T>, T>(args, stream));
}

}  // namespace windlass
