#include "op/embedding_cuda.h"

#include "op/cells_cuda.h"
#include "op/cuda_kernels.h"
#include "op/ops.h"

namespace windlass {
namespace embedding_cells {

// Ids are inside the table: rows of tokens are checked where they are read.
EmbeddingArgs args_of(const OpCall& call) {
    const auto& attrs = call.spec->get<EmbeddingAttrs>();
    const bool by_token = attrs.index == EmbeddingAttrs::Index::token;
    const Shape& table = call.spec->weights[0];
    return {.ids = by_token ? call.batch->tokens : call.batch->positions,
            .offset = attrs.offset,
            .tokens = call.size->tokens(),
            .cols = table[1],
            .rows = table[0]};
}

void forward(const OpCall& call, Stream& stream) {
    EmbeddingArgs args = args_of(call);
    args.table = cuda_weight(call.weights[0], *call.size);
    args.out = cuda_value(call.out[0]);
    launch_embedding_forward(computes_bf16(call), args, cuda_handle(stream));
}

void backward(const OpCall& call, Stream& stream) {
    const GradientSink& sink = call.sinks[0];
    if (!sink.wanted()) return;
    if (sink.first) stream.clear(sink.target.data, sink.target.bytes());
    EmbeddingArgs args = args_of(call);
    args.out = cuda_value(call.grad_out[0]);
    args.gradient = sink.target.as<float>();
    args.sorted = reinterpret_cast<int32_t*>(call.scratch.data());
    launch_embedding_backward(computes_bf16(call), args, cuda_handle(stream));
}

void tangent(const OpCall& call, Stream& stream) {
    EmbeddingArgs args = args_of(call);
    const Weight& table = call.weights[0];
    args.out = cuda_value(call.tangent_out[0]);
    args.k = call.size->k;
    args.direction = cuda_value(table.direction);
    args.left = table.left.as<float>();
    args.right = table.right.as<float>();
    args.rank = table.left.empty() ? 0 : table.left.rows() / args.k;
    launch_embedding_tangent(computes_bf16(call), args, cuda_handle(stream));
}

}  // namespace embedding_cells

constinit const OpKernels kEmbeddingCuda{
    .forward = embedding_cells::forward, .vjp = embedding_cells::backward, .jvp = embedding_cells::tangent};

}  // namespace windlass
