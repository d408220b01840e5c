#include "op/pointwise_cuda.h"

#include "op/cells_cuda.h"

namespace windlass {
namespace {

// Appends them to the inputs that are there.
void add_inputs(PointwiseArgs& args, int& count, std::span<const Tensor> tensors) {
    for (const Tensor& tensor : tensors) {
        WINDLASS_CHECK(count < kCudaPointwiseMax, "more than {} inputs", kCudaPointwiseMax);
        args.in[count++] = cuda_value(tensor);
    }
}

}  // namespace

PointwiseArgs pointwise_forward_args(const OpCall& call) {
    PointwiseArgs args{.out = {cuda_value(call.out[0])}, .rows = call.out[0].rows(), .cols = call.out[0].cols()};
    int count = 0;
    add_inputs(args, count, call.in);
    args.tokens = args.rows;
    args.own = count;
    return args;
}

PointwiseArgs pointwise_backward_args(std::span<const Tensor> reads, const OpCall& call) {
    const Tensor& grad_out = call.grad_out[0];
    PointwiseArgs args{.rows = grad_out.rows(), .cols = grad_out.cols(), .tokens = grad_out.rows()};
    int count = 0;
    add_inputs(args, count, reads);
    add_inputs(args, count, {&grad_out, 1});
    args.own = count;
    for (size_t i = 0; i < call.grad_in.size(); ++i) args.out[i] = cuda_gradient(call, i);
    return args;
}

PointwiseArgs pointwise_tangent_args(std::span<const Tensor> reads, const OpCall& call) {
    const Tensor& out = call.tangent_out[0];
    PointwiseArgs args{.out = {cuda_value(out)}, .rows = out.rows(), .cols = out.cols(), .tokens = call.size->tokens()};
    int count = 0;
    add_inputs(args, count, reads);
    args.own = count;
    add_inputs(args, count, call.tangent_in);
    return args;
}

void pointwise_forward_cuda(PointwiseLaunch launch, const OpCall& call, Stream& stream) {
    launch(computes_bf16(call), pointwise_forward_args(call), cuda_handle(stream));
}

void pointwise_backward_cuda(PointwiseLaunch launch, std::span<const Tensor> reads, const OpCall& call,
                             Stream& stream) {
    launch(computes_bf16(call), pointwise_backward_args(reads, call), cuda_handle(stream));
}

void pointwise_tangent_cuda(PointwiseLaunch launch, std::span<const Tensor> reads, const OpCall& call, Stream& stream) {
    launch(computes_bf16(call), pointwise_tangent_args(reads, call), cuda_handle(stream));
}

}  // namespace windlass
