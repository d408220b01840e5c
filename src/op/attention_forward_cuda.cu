#include "op/attention_softmax_mma_cuda.h"
#include "op/attention_softmax_plain_cuda.h"

namespace windlass {
namespace attention_forward_kernels {

template <typename T>
__global__ void attention_append_kernel(AttentionAppendArgs args) {
    const int64_t count = args.rows * static_cast<int64_t>(args.length) * args.cols;
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) {
        const int64_t token = at / args.cols, col = at % args.cols;
        const int64_t to = token / args.length * args.capacity + args.cached + token % args.length;
        static_cast<T*>(args.cache.data)[to * args.cache.stride + col] =
            static_cast<const T*>(args.from.data)[token * args.from.stride + col];
    }
}

}  // namespace attention_forward_kernels

void launch_attention_append(bool is_bf16, const AttentionAppendArgs& args, CudaStreamHandle stream) {
    constexpr int64_t kThreads = 256, kBlocksMax = 1024;
    const int64_t blocks = (args.rows * static_cast<int64_t>(args.length) * args.cols + kThreads - 1) / kThreads;
    const CudaGrid grid{.blocks = blocks < kBlocksMax ? blocks : kBlocksMax, .threads = kThreads};
    WINDLASS_BY_TYPE(
        is_bf16, T,
        launch(stream, grid, attention_forward_kernels::attention_append_kernel<T>, args, "attention append"));
}

void launch_attention_forward(bool is_bf16, const AttentionArgs& args, CudaStreamHandle stream) {
    if (is_bf16) {
        AttentionArgs on_tensor_cores = args;
        on_tensor_cores.aligned = is_copied_whole(args.in, args.head_size) && is_copied_whole(args.out, args.head_size);
        if (launch_softmax_mma<false>(on_tensor_cores, stream, "attention forward")) return;
    }
    WINDLASS_BY_TYPE(is_bf16, T, launch_softmax_plain<T, false>(args, stream, "attention forward"));
}

}  // namespace windlass
