// Integers, products and differences that are exact or rounded once: the bits are the CPU's.
#include "perturb/copy_kernel_cuda.h"
#include "perturb/stored_cuda.h"

namespace windlass {
namespace copy_kernels {

constexpr int64_t kThreads = 256;

__global__ void copy_kernel(CopyWeightsArgs args) {
    const cuda_device::StoredNumbers numbers = cuda_device::stored_numbers(args.stored, args.scale);
    const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < args.count; i += step) {
        const float x = numbers.read(args.weights, i);
        if (args.narrows)
            static_cast<uint16_t*>(args.out)[i] = split_master(__float_as_uint(x)).hi;
        else
            static_cast<float*>(args.out)[i] = x;
    }
}

}  // namespace copy_kernels

void launch_copy_weights(const CopyWeightsArgs& args, CudaStreamHandle stream) {
    constexpr int64_t kBlocksMax = 4096;
    const int64_t blocks = (args.count + copy_kernels::kThreads - 1) / copy_kernels::kThreads;
    launch(stream, {.blocks = blocks < kBlocksMax ? blocks : kBlocksMax, .threads = copy_kernels::kThreads},
           copy_kernels::copy_kernel, args, "copy weights");
}

}  // namespace windlass
