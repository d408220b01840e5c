#include "op/rope_cuda.h"

#include "op/cells_cuda.h"
#include "op/cuda_kernels.h"
#include "op/ops.h"

namespace windlass {
namespace {

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
    for (size_t i = 0; i < attrs.frequencies.size(); ++i)
        args.frequencies[i] = static_cast<float>(attrs.frequencies[i]);
    launch_rope(computes_bf16(call), args, cuda_handle(stream));
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

}  // namespace

constinit const OpKernels kRopeCuda{.forward = forward, .vjp = backward, .jvp = tangent};

}  // namespace windlass
