#include "op/rope_cuda.h"

#include "op/cells_cuda.h"
#include "op/cuda_kernels.h"
#include "op/ops.h"

namespace windlass {
namespace rope_cells {

void narrow_to(const std::vector<double>& from, float* to) {
    for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<float>(from[i]);
}

RopePartArgs part_args(const RopeArgs& args, const RopeAttrs& attrs, const Batch& batch) {
    RopePartArgs part{args};
    part.still = attrs.still;
    part.passed = attrs.passed;
    part.scale = static_cast<float>(attrs.scale);
    if (attrs.long_frequencies.empty()) return part;
    narrow_to(attrs.long_frequencies, part.long_frequencies);
    part.short_length = attrs.short_length;
    part.length = batch.sequence_length;
    if (batch.cached > 0 || batch.length_at_least > 0) {
        part.is_long = std::max(batch.length_at_least, batch.cached + part.length) > attrs.short_length;
    } else {
        part.doc_start = batch.doc_start;
    }
    return part;
}

void rotate(const OpCall& call, const CudaValue& x, const CudaValue& y, int64_t directions, bool backwards,
            Stream& stream) {
    const auto& attrs = call.spec->get<RopeAttrs>();
    RopeArgs args{.x = x,
                  .y = y,
                  .positions = call.batch->positions,
                  .tokens = call.size->tokens(),
                  .directions = directions,
                  .heads = attrs.heads,
                  .pairs = std::ssize(attrs.frequencies),
                  .backwards = backwards};
    WINDLASS_CHECK(args.pairs <= kCudaRopePairsMax, "rope of {} pairs", args.pairs);
    narrow_to(attrs.frequencies, args.frequencies);
    const bool whole = attrs.still == 0 && attrs.passed == 0 && attrs.scale == 1 && attrs.long_frequencies.empty();
    if (whole) return launch_rope(computes_bf16(call), args, cuda_handle(stream));
    launch_rope_part(computes_bf16(call), part_args(args, attrs, *call.batch), cuda_handle(stream));
}

void forward(const OpCall& call, Stream& stream) {
    rotate(call, cuda_value(call.in[0]), cuda_value(call.out[0]), 1, false, stream);
}

void backward(const OpCall& call, Stream& stream) {
    rotate(call, cuda_value(call.grad_out[0]), cuda_gradient(call, 0), 1, true, stream);
}

void tangent(const OpCall& call, Stream& stream) {
    rotate(call, cuda_value(call.tangent_in[0]), cuda_value(call.tangent_out[0]), call.size->k, false, stream);
}

}  // namespace rope_cells

constinit const OpKernels kRopeCuda{
    .forward = rope_cells::forward, .vjp = rope_cells::backward, .jvp = rope_cells::tangent};

}  // namespace windlass
