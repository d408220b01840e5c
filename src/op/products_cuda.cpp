#include "op/products_cuda.h"

#include "op/cells_cuda.h"
#include "op/gemv_cuda.h"
#include "op/linear_kernels_cuda.h"

namespace windlass {
namespace {

bool has_aligned_rows(const Tensor& matrix) {
    const int64_t bytes = dtype_bytes(matrix.dtype);
    return reinterpret_cast<uintptr_t>(matrix.data) % 16 == 0 && matrix.row_stride * bytes % 16 == 0 &&
           matrix.cols() * bytes % 16 == 0;
}

// The library splits nothing along K, so for few rows it would leave most of a card idle.
bool is_gemv(const GemmArgs& args) {
    return args.c.rows() <= kGemvRowsMax && args.transpose_b && !args.transpose_a;
}

}  // namespace

void cuda_product(const GemmArgs& args, std::span<std::byte> workspace, Stream& stream) {
    if (!is_gemv(args)) return gemm_cuda(args, workspace, stream);
    const GemvArgs gemv{.x = cuda_value(args.a),
                        .weights = cuda_value(args.b),
                        .y = {args.c.data, args.c.row_stride, args.accumulate},
                        .bias = args.bias.empty() ? nullptr : args.bias.data,
                        .rows = static_cast<int>(args.c.rows()),
                        .outputs = args.c.cols(),
                        .inputs = args.a.cols(),
                        .aligned = has_aligned_rows(args.a) && has_aligned_rows(args.b)};
    launch_gemv(args.a.dtype == DType::bf16, args.c.dtype == DType::f32, gemv, cuda_handle(stream));
}

std::span<std::byte> CudaScratch::take(int64_t bytes) {
    const auto wanted = static_cast<size_t>(bytes);
    WINDLASS_CHECK(wanted <= left_.size(), "{} bytes of scratch, {} are left", wanted, left_.size());
    const std::span<std::byte> taken = left_.first(wanted);
    left_ = left_.subspan(wanted);
    return taken;
}

Tensor cuda_matrix(const Weight& weight, const OpSize& size, CudaScratch& scratch, Stream& stream) {
    if (weight.base.dtype == size.compute) return weight.base;
    WINDLASS_CHECK(size.compute == DType::f32 && size.split_weights, "a weight of {} where {} is computed with",
                   dtype_name(weight.base.dtype), dtype_name(size.compute));
    const int64_t count = weight.base.numel();
    const Tensor joined(DType::f32, weight.base.shape, scratch.floats(count));
    launch_join({cuda_weight(weight, size), joined.as<float>(), count}, cuda_handle(stream));
    return joined;
}

Tensor cuda_inner_products(const Tensor& x, const Tensor& inner, const OpSize& size, CudaScratch& scratch,
                           std::span<std::byte> workspace, Stream& stream) {
    const Tensor products(DType::f32, {x.rows(), inner.rows()}, scratch.floats(x.rows() * inner.rows()));
    Tensor factors = inner;
    float* const room = scratch.floats(inner.numel());
    if (size.compute == DType::bf16) {
        factors = Tensor(DType::bf16, inner.shape, room);
        launch_narrow({inner.as<float>(), factors.as<uint16_t>(), inner.numel()}, cuda_handle(stream));
    }
    cuda_product({.a = x, .b = factors, .c = products, .transpose_b = true}, workspace, stream);
    return products;
}

}  // namespace windlass
