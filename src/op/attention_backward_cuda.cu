#include "op/attention_backward_mma_cuda.h"
#include "op/attention_backward_plain_cuda.h"

namespace windlass {
namespace attention_backward_kernels {

constexpr unsigned kDeltaThreads = 256;

// delta = rowsum(dO * O): a warp for each token and head.
template <typename T>
__global__ void attention_delta_kernel(AttentionArgs args) {
    const int64_t index = static_cast<int64_t>(blockIdx.x) * (kDeltaThreads / kWarp) + threadIdx.x / kWarp;
    if (index >= static_cast<int64_t>(args.rows) * args.length * args.heads) return;  // whole warps
    const int64_t token = index / args.heads, col = index % args.heads * args.head_size;
    float sum = 0;
    for (int i = static_cast<int>(threadIdx.x % kWarp); i < args.head_size; i += kWarp)
        sum = __fmaf_rn(read<T>(args.grad_out, token, col + i), read<T>(args.out, token, col + i), sum);
    sum = warp_sum(sum);
    if (threadIdx.x % kWarp == 0) args.delta[index] = sum;
}

template <typename T>
void launch_delta(const AttentionArgs& args, CudaStreamHandle stream) {
    constexpr int64_t kWarps = kDeltaThreads / kWarp;
    const int64_t count = static_cast<int64_t>(args.rows) * args.length * args.heads;
    const CudaGrid grid{.blocks = (count + kWarps - 1) / kWarps, .threads = kDeltaThreads};
    launch(stream, grid, attention_delta_kernel<T>, args, "attention delta");
}

template <typename T, bool kByKeys>
void launch_gradients(bool on_tensor_cores, const AttentionArgs& args, CudaStreamHandle stream) {
    if (on_tensor_cores && launch_gradients_mma<kByKeys>(args, stream)) return;
    launch_gradients_plain<T, kByKeys>(args, stream);
}

template <bool kByKeys>
void launch_gradients_of(bool is_bf16, const AttentionArgs& given, CudaStreamHandle stream) {
    AttentionArgs args = given;
    args.aligned = is_copied_whole(args.in, args.head_size) && is_copied_whole(args.grad_out, args.head_size) &&
                   is_copied_whole(args.grads, args.head_size);
    WINDLASS_BY_TYPE(is_bf16, T, launch_gradients<T, kByKeys>(is_bf16, args, stream));
}

}  // namespace attention_backward_kernels

void launch_attention_delta(bool is_bf16, const AttentionArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T, attention_backward_kernels::launch_delta<T>(args, stream));
}
void launch_attention_by_keys(bool is_bf16, const AttentionArgs& args, CudaStreamHandle stream) {
    attention_backward_kernels::launch_gradients_of<true>(is_bf16, args, stream);
}
void launch_attention_by_queries(bool is_bf16, const AttentionArgs& args, CudaStreamHandle stream) {
    attention_backward_kernels::launch_gradients_of<false>(is_bf16, args, stream);
}

}  // namespace windlass
