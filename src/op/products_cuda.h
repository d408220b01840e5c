// products_cuda.h: what the cells of linear and of the head share: scratch, weights as products want them, factors.
#pragma once

#include "op/gemm_cuda.h"
#include "op/op.h"

namespace windlass {

// A call's scratch, handed out piece by piece.
class CudaScratch {
  public:
    explicit CudaScratch(std::span<std::byte> bytes) : left_(bytes) {}
    std::span<std::byte> take(int64_t bytes);
    float* floats(int64_t count) { return reinterpret_cast<float*>(take(bytes_of(count)).data()); }
    static constexpr int64_t bytes_of(int64_t floats) { return (4 * floats + 255) / 256 * 256; }

  private:
    std::span<std::byte> left_;
};

// gemm_cuda(), or where few rows meet weights [N, K] a kernel that is as fast as those are read.
void cuda_product(const GemmArgs& args, std::span<std::byte> workspace, Stream& stream);

// A weight in the type of the computation: as it lies in memory, or joined in scratch.
Tensor cuda_matrix(const Weight& weight, const OpSize& size, CudaScratch& scratch, Stream& stream);
constexpr int64_t cuda_matrix_bytes(const OpSize& size, int64_t count) {
    return size.split_weights && size.compute == DType::f32 ? CudaScratch::bytes_of(count) : 0;
}

// Of linear's largest product.
inline int64_t linear_workspace_bytes(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const int64_t tokens = size.tokens() * (mode == DiffMode::jvp ? size.k : 1);
    return gemm_workspace_bytes(static_cast<double>(tokens) * static_cast<double>(spec.weights[0].numel()));
}

// x inner^T of all k directions, [tokens, k * rank] in f32, of factors in f32.
Tensor cuda_inner_products(const Tensor& x, const Tensor& inner, const OpSize& size, CudaScratch& scratch,
                           std::span<std::byte> workspace, Stream& stream);
constexpr int64_t cuda_inner_product_bytes(int64_t tokens, int64_t cols, int64_t rank, const OpSize& size) {
    return CudaScratch::bytes_of(tokens * size.k * rank) + CudaScratch::bytes_of(size.k * rank * cols);
}

}  // namespace windlass
