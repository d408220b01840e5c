#include "op/preference_cuda.h"

#include <algorithm>

#include "op/cells_cuda.h"
#include "op/cuda_kernels.h"
#include "op/ops.h"

namespace windlass {
namespace preference_cells {

PreferenceArgs args_of(const OpCall& call) {
    const auto& attrs = call.spec->get<PreferenceAttrs>();
    WINDLASS_CHECK(call.batch->rows % 2 == 0, "{} rows are not pairs", call.batch->rows);
    return {.in = call.in[0].as<float>(),
            .targets = call.batch->targets,
            .in_stride = call.in[0].row_stride,
            .sequence_length = call.batch->sequence_length,
            .tokens = call.batch->count(),
            .ignored = kIgnored,
            .k = call.size->k,
            .is_orpo = attrs.kind == PreferenceAttrs::Kind::orpo,
            .beta = attrs.beta};
}

void take_out(PreferenceArgs& args, const Tensor& out) {
    args.out = out.as<float>();
    args.out_stride = out.row_stride;
}

void launch_all(PreferenceArgs args, const OpCall& call, Stream& stream) {
    const int64_t pairs = call.batch->rows / 2;
    for (args.first_pair = 0; args.first_pair < pairs; args.first_pair += kPairsAtOnce) {
        const int64_t count = std::min(kPairsAtOnce, pairs - args.first_pair);
        if (const double* const references = call.batch->references; references != nullptr)
            std::copy_n(references + 2 * args.first_pair, 2 * count, args.references);
        if (const int32_t* const answers = call.batch->answers; answers != nullptr)
            std::copy_n(answers + 2 * args.first_pair, 2 * count, args.answers);
        launch_preference(args, count, cuda_handle(stream));
    }
}

void forward(const OpCall& call, Stream& stream) {
    PreferenceArgs args = args_of(call);
    take_out(args, call.out[0]);
    if (call.head != nullptr && call.head->result != HeadResult::loss)
        return launch_token_losses(args, cuda_handle(stream));
    launch_all(args, call, stream);
}

void backward(const OpCall& call, Stream& stream) {
    PreferenceArgs args = args_of(call);
    if (!call.out.empty() && !call.out[0].empty()) take_out(args, call.out[0]);
    if (const Tensor& grad = call.grad_in[0]; !grad.empty()) {
        args.grad = grad.as<float>();
        args.grad_stride = grad.row_stride;
        args.adds = call.add_to_grad_in[0] != 0;
    }
    args.loss_scale = call.head->loss_scale;
    launch_all(args, call, stream);
}

void tangent(const OpCall& call, Stream& stream) {
    PreferenceArgs args = args_of(call);
    take_out(args, call.tangent_out[0]);
    WINDLASS_CHECK(!call.tangent_in[0].empty(), "losses that no weight moves");
    args.tangent_in = call.tangent_in[0].as<float>();
    args.tangent_stride = call.tangent_in[0].row_stride;
    launch_all(args, call, stream);
}

}  // namespace preference_cells

constinit const OpKernels kPreferenceCuda{
    .forward = preference_cells::forward, .vjp = preference_cells::backward, .jvp = preference_cells::tangent};

}  // namespace windlass
