#include "op/layer_norm.h"
#include "op/loops_cpu.h"
#include "op/ops.h"

namespace windlass {
namespace {

constexpr IsaKernel<const LayerNormLoops> kLayerNormLoops{&baseline::kLayerNormLoops, &avx2::kLayerNormLoops,
                                                          &avx512::kLayerNormLoops};

// The part of a row's description that all rows share; takes the weights from scratch.
LayerNormRow common_layer_norm_row(const OpCall& call, Scratch& scratch) {
    const double eps = call.spec->get<LayerNormAttrs>().eps;
    const float* w = read_vector(call.weights[0], *call.size, scratch);
    const float* b = read_vector(call.weights[1], *call.size, scratch);
    return {call.in[0].cols(), static_cast<float>(eps), nullptr, w, b};
}

// Where forward keeps the mean and rstd of row t for backward.
LayerNormMoments& moments_at(const Tensor& saved, int64_t t) {
    return *reinterpret_cast<LayerNormMoments*>(saved.as<float>() + t * saved.row_stride);
}

}  // namespace

void layer_norm_forward_cpu(const OpCall& call, Stream& stream) {
    const LayerNormLoops& loops = *kLayerNormLoops.pick();
    const Tensor &in = call.in[0], &saved = call.saved[0];
    const Output out{call.out[0]};
    Scratch scratch(call.scratch);
    const LayerNormRow common = common_layer_norm_row(call, scratch);
    const WorkerRows x(scratch, *call.size, common.size), y(scratch, *call.size, common.size);
    for_row_chunks(in.rows(), rows_per_chunk(common.size), cpu_team(stream),
                   [&](int64_t begin, int64_t end, int worker) {
                       LayerNormRow row = common;
                       for (int64_t t = begin; t < end; ++t) {
                           row.x = read_row(in, t, row.size, x[worker]);
                           float* const to = out.begin_row(t, y[worker]);
                           const LayerNormMoments moments = loops.forward(row, to);
                           out.end_row(t, to);
                           if (!saved.empty()) moments_at(saved, t) = moments;
                       }
                   });
}

void layer_norm_backward_cpu(const OpCall& call, Stream& stream) {
    const LayerNormLoops& loops = *kLayerNormLoops.pick();
    const Tensor &in = call.in[0], &saved = call.saved[0], &grad_out = call.grad_out[0];
    const Output grad_in = grad_output(call, 0);
    Scratch scratch(call.scratch);
    const LayerNormRow common = common_layer_norm_row(call, scratch);
    const WorkerRows x(scratch, *call.size, common.size), dy(scratch, *call.size, common.size),
        dx(scratch, *call.size, common.size);
    VectorGradient gradient_w(call.sinks[0], in.rows(), common.size, scratch);
    VectorGradient gradient_b(call.sinks[1], in.rows(), common.size, scratch);
    Team& team = cpu_team(stream);
    for_row_chunks(in.rows(), VectorGradient::chunk_rows(in.rows()), team, [&](int64_t begin, int64_t end, int worker) {
        LayerNormRow row = common;
        float* const grad_w = gradient_w.begin_chunk(begin);
        float* const grad_b = gradient_b.begin_chunk(begin);
        for (int64_t t = begin; t < end; ++t) {
            row.x = read_row(in, t, row.size, x[worker]);
            const float* const grad = read_row(grad_out, t, row.size, dy[worker]);
            float* const to = grad_in.begin_row(t, dx[worker]);
            loops.backward(row, moments_at(saved, t), grad, to, grad_w, grad_b);
            grad_in.end_row(t, to);
        }
    });
    gradient_w.finish(team);
    gradient_b.finish(team);
}

void layer_norm_tangent_cpu(const OpCall& call, Stream& stream) {
    const LayerNormLoops& loops = *kLayerNormLoops.pick();
    const OpSize& size = *call.size;
    const Tensor &in = call.in[0], &tangent_in = call.tangent_in[0];
    const Output out{call.tangent_out[0]};
    Scratch scratch(call.scratch);
    const LayerNormRow common = common_layer_norm_row(call, scratch);
    const WorkerRows x(scratch, size, common.size), tx(scratch, size, common.size), ty(scratch, size, common.size);
    const VectorTangents tangent_w(call.weights[0], size, scratch), tangent_b(call.weights[1], size, scratch);
    for_row_chunks(
        in.rows(), rows_per_chunk(common.size), cpu_team(stream), [&](int64_t begin, int64_t end, int worker) {
            LayerNormRow row = common;
            for (int64_t t = begin; t < end; ++t) {
                row.x = read_row(in, t, row.size, x[worker]);
                for (int64_t d = 0; d < size.k; ++d) {
                    const int64_t at = d * in.rows() + t;
                    float* const to = out.begin_row(at, ty[worker]);
                    loops.tangent(row, read_row(tangent_in, at, row.size, tx[worker]), tangent_w[d], tangent_b[d], to);
                    out.end_row(at, to);
                }
            }
        });
}

}  // namespace windlass
