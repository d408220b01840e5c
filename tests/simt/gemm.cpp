// Products of the emulated device, in double precision: what cuBLASLt is to a card.
#include "op/gemm_cuda.h"

#include "device/cuda/cuda_stream.h"
#include "tests/simt/block.h"

namespace windlass {
namespace {

double number(const Tensor& matrix, int64_t row, int64_t col) {
    const int64_t at = row * matrix.row_stride + col;
    return matrix.dtype == DType::bf16 ? to_float(matrix.as<bf16>()[at]) : matrix.as<float>()[at];
}

void put(const Tensor& matrix, int64_t row, int64_t col, double x) {
    const int64_t at = row * matrix.row_stride + col;
    if (matrix.dtype == DType::bf16)
        matrix.as<bf16>()[at] = to_bf16(static_cast<float>(x));
    else
        matrix.as<float>()[at] = static_cast<float>(x);
}

// By one thread of the block.
void multiply(const GemmArgs& args) {
    if (simt::this_thread().index.x > 0) return;
    const int64_t inner = args.transpose_a ? args.a.rows() : args.a.cols();
    for (int64_t row = 0; row < args.c.rows(); ++row) {
        for (int64_t col = 0; col < args.c.cols(); ++col) {
            double sum = args.accumulate ? number(args.c, row, col) : 0;
            if (!args.bias.empty())
                sum +=
                    args.bias.dtype == DType::bf16 ? to_float(args.bias.as<bf16>()[col]) : args.bias.as<float>()[col];
            for (int64_t k = 0; k < inner; ++k)
                sum += (args.transpose_a ? number(args.a, k, row) : number(args.a, row, k)) *
                       (args.transpose_b ? number(args.b, col, k) : number(args.b, k, col));
            put(args.c, row, col, sum);
        }
    }
}

}  // namespace

std::string product_path_cuda() {
    return "plain";
}

void gemm_cuda(const GemmArgs& args, std::span<std::byte>, Stream& stream) {
    GemmArgs given = args;
    CudaKernelCall call;
    call.name = "cublasLtMatmul";
    call.kernel = reinterpret_cast<const void*>(&multiply);
    call.run = [](const void*, const void* args) { multiply(*static_cast<const GemmArgs*>(args)); };
    call.args = &given;
    call.arg_bytes = sizeof given;
    call.grid.threads = simt::kLanes;
    launch_kernel(cuda_handle(stream), call);
}

}  // namespace windlass
