#include "op/attention_cuda.h"

#include "base/math.h"
#include "op/attention_hopper_cuda.h"
#include "op/attention_tiles.h"
#include "op/cells_cuda.h"
#include "op/cuda_kernels.h"

namespace windlass {
namespace attention_cells {

AttentionHeadsCuda cuda_heads(const Heads& heads) {
    return {cuda_value(heads.q), cuda_value(heads.k), cuda_value(heads.v)};
}

AttentionArgs arguments(const OpCall& call) {
    const auto& attrs = call.spec->get<AttentionAttrs>();
    // Kernels are measured before anything is planned: a model that is refused is refused there.
    if (attrs.head_size > kAttentionCudaSizeMax)
        throw UserError(ExitCode::gpu, "device", "attention on CUDA devices takes heads up to a size of {}, not {}",
                        kAttentionCudaSizeMax, attrs.head_size)
            .hint("device: cpu");
    const Batch& batch = *call.batch;
    AttentionArgs args{.rows = narrow<int>(batch.rows),
                       .length = narrow<int>(batch.sequence_length),
                       .cached = narrow<int>(batch.cached),
                       .key_rows = narrow<int>(batch.sequence_length),
                       .heads = narrow<int>(attrs.heads),
                       .key_heads = narrow<int>(attrs.key_heads),
                       .head_size = narrow<int>(attrs.head_size),
                       .window = narrow<int>(attrs.window),
                       .scale = static_cast<float>(attrs.scale),
                       .softcap = static_cast<float>(attrs.softcap),
                       .doc_start = batch.doc_start,
                       .in = cuda_heads(split_heads(call.in, attrs))};
    if (!call.saved.empty()) {
        args.log_sum = call.saved[0].as<float>();
        args.log_sum_stride = call.saved[0].row_stride;
    }
    return args;
}

void append(const OpCall& call, const AttentionArgs& args, Stream& stream) {
    const Tensor &keys = call.cache_keys, &values = call.cache_values;
    AttentionAppendArgs append{.from = args.in.k,
                               .cache = cuda_value(keys),
                               .rows = args.rows,
                               .length = args.length,
                               .cached = args.cached,
                               .capacity = narrow<int>(keys.rows() / args.rows),
                               .cols = keys.cols()};
    WINDLASS_CHECK(args.cached + args.length <= append.capacity && keys.dtype == call.in[0].dtype,
                   "{} tokens after {} in a cache for {}", args.length, args.cached, append.capacity);
    launch_attention_append(computes_bf16(call), append, cuda_handle(stream));
    append.from = args.in.v;
    append.cache = cuda_value(values);
    launch_attention_append(computes_bf16(call), append, cuda_handle(stream));
}

void forward(const OpCall& call, Stream& stream) {
    AttentionArgs args = arguments(call);
    args.out = cuda_value(call.out[0]);
    if (!call.cache_keys.empty()) {
        append(call, args, stream);
        args.in.k = cuda_value(call.cache_keys);
        args.in.v = cuda_value(call.cache_values);
        args.key_rows = narrow<int>(call.cache_keys.rows() / args.rows);
    }
    const bool is_bf16 = computes_bf16(call);
    const CudaStreamHandle handle = cuda_handle(stream);
    if (!is_bf16 || !launch_attention_forward_hopper(args, handle)) launch_attention_forward(is_bf16, args, handle);
}

void backward(const OpCall& call, Stream& stream) {
    AttentionArgs args = arguments(call);
    args.out = cuda_value(call.out[0]);
    args.grad_out = cuda_value(call.grad_out[0]);
    args.grads = cuda_heads(split_heads(call.grad_in, call.spec->get<AttentionAttrs>()));
    const bool packed = call.grad_in.size() == 1;
    args.grads.q.adds = call.add_to_grad_in[0] != 0;
    args.grads.k.adds = call.add_to_grad_in[packed ? 0 : 1] != 0;
    args.grads.v.adds = call.add_to_grad_in[packed ? 0 : 2] != 0;
    args.delta = scratch_floats(call);
    const bool is_bf16 = computes_bf16(call);
    const CudaStreamHandle handle = cuda_handle(stream);
    launch_attention_delta(is_bf16, args, handle);
    const bool has_keys = args.grads.k.data != nullptr || args.grads.v.data != nullptr;
    if (has_keys && (!is_bf16 || !launch_attention_by_keys_hopper(args, handle)))
        launch_attention_by_keys(is_bf16, args, handle);
    const bool has_queries = args.grads.q.data != nullptr;
    if (has_queries && (!is_bf16 || !launch_attention_by_queries_hopper(args, handle)))
        launch_attention_by_queries(is_bf16, args, handle);
}

void tangent(const OpCall& call, Stream& stream) {
    AttentionArgs args = arguments(call);
    args.directions = call.size->k;
    args.tangents = cuda_heads(split_heads(call.tangent_in, call.spec->get<AttentionAttrs>()));
    args.tangent_out = cuda_value(call.tangent_out[0]);
    const bool is_bf16 = computes_bf16(call);
    const CudaStreamHandle handle = cuda_handle(stream);
    if (!is_bf16 || !launch_attention_tangent_hopper(args, handle)) launch_attention_tangent(is_bf16, args, handle);
}

}  // namespace attention_cells

constinit const OpKernels kAttentionCuda{
    .forward = attention_cells::forward, .vjp = attention_cells::backward, .jvp = attention_cells::tangent};

}  // namespace windlass
