#include "op/pointwise_cuda.h"

#include "op/cells_cuda.h"

namespace windlass {
namespace {

// Behind those that are there.
void add_inputs(PointwiseArgs& args, int& count, std::span<const Tensor> tensors) {
    for (const Tensor& tensor : tensors) {
        WINDLASS_CHECK(count < kCudaPointwiseMax, "more than {} inputs", kCudaPointwiseMax);
        args.in[count++] = cuda_value(tensor);
    }
}

}  // namespace

void pointwise_forward_cuda(PointwiseLaunch launch, const OpCall& call, Stream& stream) {
    PointwiseArgs args{.out = {cuda_value(call.out[0])}, .rows = call.out[0].rows(), .cols = call.out[0].cols()};
    int count = 0;
    add_inputs(args, count, call.in);
    args.tokens = args.rows;
    args.own = count;
    launch(computes_bf16(call), args, cuda_handle(stream));
}

void pointwise_backward_cuda(PointwiseLaunch launch, std::span<const Tensor> reads, const OpCall& call,
                             Stream& stream) {
    const Tensor& grad_out = call.grad_out[0];
    PointwiseArgs args{.rows = grad_out.rows(), .cols = grad_out.cols(), .tokens = grad_out.rows()};
    int count = 0;
    add_inputs(args, count, reads);
    add_inputs(args, count, {&grad_out, 1});
    args.own = count;
    for (size_t i = 0; i < call.grad_in.size(); ++i) args.out[i] = cuda_gradient(call, i);
    launch(computes_bf16(call), args, cuda_handle(stream));
}

void pointwise_tangent_cuda(PointwiseLaunch launch, std::span<const Tensor> reads, const OpCall& call, Stream& stream) {
    const Tensor& out = call.tangent_out[0];
    PointwiseArgs args{.out = {cuda_value(out)}, .rows = out.rows(), .cols = out.cols(), .tokens = call.size->tokens()};
    int count = 0;
    add_inputs(args, count, reads);
    args.own = count;
    add_inputs(args, count, call.tangent_in);
    launch(computes_bf16(call), args, cuda_handle(stream));
}

}  // namespace windlass
