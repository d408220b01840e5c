#include "op/loops_cpu.h"
#include "op/ops.h"
#include "op/rms_norm.h"

namespace windlass {
namespace {

constexpr IsaKernel<const RmsNormLoops> kRmsNormLoops{&baseline::kRmsNormLoops, &avx2::kRmsNormLoops,
                                                      &avx512::kRmsNormLoops};

// The part of a row's description that all rows share; takes the weight from scratch.
RmsNormRow common_rms_norm_row(const OpCall& call, Scratch& scratch) {
    const auto& attrs = call.spec->get<RmsNormAttrs>();
    const int64_t size = call.weights[0].base.numel();
    float* const w = scratch.floats(size);
    read_weight_row(call.weights[0], 0, call.size->compute, w);
    for (int64_t i = 0; i < size && attrs.unit_offset; ++i) w[i] += 1;
    return {attrs.groups, size, static_cast<float>(attrs.eps), nullptr, w};
}

}  // namespace

void rms_norm_forward_cpu(const OpCall& call, Stream& stream) {
    const RmsNormLoops& loops = *kRmsNormLoops.pick();
    const Tensor &in = call.in[0], &rstd = call.saved[0];
    const Output out{call.out[0]};
    Scratch scratch(call.scratch);
    const RmsNormRow common = common_rms_norm_row(call, scratch);
    const WorkerRows x(scratch, *call.size, in.cols()), y(scratch, *call.size, in.cols());
    for_row_chunks(in.rows(), rows_per_chunk(in.cols()), cpu_team(stream), [&](int64_t begin, int64_t end, int worker) {
        RmsNormRow row = common;
        for (int64_t t = begin; t < end; ++t) {
            row.x = read_row(in, t, in.cols(), x[worker]);
            float* const to = out.begin_row(t, y[worker]);
            loops.forward(row, rstd.empty() ? nullptr : rstd.as<float>() + t * rstd.row_stride, to);
            out.end_row(t, to);
        }
    });
}

void rms_norm_backward_cpu(const OpCall& call, Stream& stream) {
    const RmsNormLoops& loops = *kRmsNormLoops.pick();
    const Tensor &in = call.in[0], &rstd = call.saved[0], &grad_out = call.grad_out[0];
    const Output grad_in = grad_output(call, 0);
    Scratch scratch(call.scratch);
    const RmsNormRow common = common_rms_norm_row(call, scratch);
    const WorkerRows x(scratch, *call.size, in.cols()), dy(scratch, *call.size, in.cols()),
        dx(scratch, *call.size, in.cols());
    VectorGradient gradient(call.sinks[0], in.rows(), common.size, scratch);
    Team& team = cpu_team(stream);
    for_row_chunks(in.rows(), VectorGradient::chunk_rows(in.rows()), team, [&](int64_t begin, int64_t end, int worker) {
        RmsNormRow row = common;
        float* const grad_w = gradient.begin_chunk(begin);
        for (int64_t t = begin; t < end; ++t) {
            row.x = read_row(in, t, in.cols(), x[worker]);
            float* const to = grad_in.begin_row(t, dx[worker]);
            const float* const grad = read_row(grad_out, t, in.cols(), dy[worker]);
            loops.backward(row, rstd.as<float>() + t * rstd.row_stride, grad, to, grad_w);
            grad_in.end_row(t, to);
        }
    });
    gradient.finish(team);
}

void rms_norm_tangent_cpu(const OpCall& call, Stream& stream) {
    const RmsNormLoops& loops = *kRmsNormLoops.pick();
    const OpSize& size = *call.size;
    const Tensor &in = call.in[0], &tangent_in = call.tangent_in[0];
    const Output out{call.tangent_out[0]};
    Scratch scratch(call.scratch);
    const RmsNormRow common = common_rms_norm_row(call, scratch);
    const WorkerRows x(scratch, size, in.cols()), tx(scratch, size, in.cols()), ty(scratch, size, in.cols());
    const VectorTangents tangent_w(call.weights[0], size, scratch);
    for_row_chunks(in.rows(), rows_per_chunk(in.cols()), cpu_team(stream), [&](int64_t begin, int64_t end, int worker) {
        RmsNormRow row = common;
        for (int64_t t = begin; t < end; ++t) {
            row.x = read_row(in, t, in.cols(), x[worker]);
            for (int64_t d = 0; d < size.k; ++d) {
                const int64_t at = d * in.rows() + t;
                float* const to = out.begin_row(at, ty[worker]);
                loops.tangent(row, read_row(tangent_in, at, in.cols(), tx[worker]), tangent_w[d], to);
                out.end_row(at, to);
            }
        }
    });
}

}  // namespace windlass
