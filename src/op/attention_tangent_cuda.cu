#include "op/attention_softmax_mma_cuda.h"
#include "op/attention_softmax_plain_cuda.h"

namespace windlass {

void launch_attention_tangent(bool is_bf16, const AttentionArgs& args, CudaStreamHandle stream) {
    if (is_bf16) {
        AttentionArgs on_tensor_cores = args;
        on_tensor_cores.aligned = is_copied_whole(args.in, args.head_size) &&
                                  is_copied_whole(args.tangents, args.head_size) &&
                                  is_copied_whole(args.tangent_out, args.head_size);
        if (launch_softmax_mma<true>(on_tensor_cores, stream, "attention tangent")) return;
    }
    WINDLASS_BY_TYPE(is_bf16, T, launch_softmax_plain<T, true>(args, stream, "attention tangent"));
}

}  // namespace windlass
