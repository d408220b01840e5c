#include "op/loops_cpu.h"
#include "op/ops.h"
#include "op/rope.h"

namespace windlass {
namespace {

constexpr IsaKernel<const RopeLoops> kLoops{&baseline::kRopeLoops, &avx2::kRopeLoops, &avx512::kRopeLoops};

// Rotates the rows d * T + t of `in` by the angles of token t (backwards: by the negative angles), for all
// directions d. Angles are computed once a token.
void rotate_rows(const OpCall& call, const Tensor& in, const Output& out, int64_t directions, bool backwards,
                 Team& team) {
    const RopeLoops& loops = *kLoops.pick();
    const auto& attrs = call.spec->get<RopeAttrs>();
    const auto pairs = static_cast<int64_t>(attrs.frequencies.size());
    const int64_t tokens = call.size->tokens(), cols = call.spec->in[0].cols;
    Scratch scratch(call.scratch);
    float* const frequencies = scratch.floats(pairs);
    std::transform(attrs.frequencies.begin(), attrs.frequencies.end(), frequencies,
                   [](double frequency) { return static_cast<float>(frequency); });
    const WorkerRows x(scratch, *call.size, cols), y(scratch, *call.size, cols), angles(scratch, *call.size, 2 * pairs);
    for_row_chunks(tokens, rows_per_chunk(cols), team, [&](int64_t begin, int64_t end, int worker) {
        float *const cos = angles[worker], *const sin = cos + pairs;
        for (int64_t t = begin; t < end; ++t) {
            loops.angles(backwards ? -call.batch->positions[t] : call.batch->positions[t], frequencies, cos, sin,
                         pairs);
            for (int64_t d = 0; d < directions; ++d) {
                const int64_t row = d * tokens + t;
                float* const to = out.begin_row(row, y[worker]);
                loops.rotate(read_row(in, row, cols, x[worker]), cos, sin, to, attrs.heads, pairs);
                out.end_row(row, to);
            }
        }
    });
}

}  // namespace

void rope_forward_cpu(const OpCall& call, Stream& stream) {
    rotate_rows(call, call.in[0], {call.out[0]}, 1, false, cpu_team(stream));
}

void rope_backward_cpu(const OpCall& call, Stream& stream) {
    rotate_rows(call, call.grad_out[0], grad_output(call, 0), 1, true, cpu_team(stream));
}

void rope_tangent_cpu(const OpCall& call, Stream& stream) {
    rotate_rows(call, call.tangent_in[0], {call.tangent_out[0]}, call.size->k, false, cpu_team(stream));
}

}  // namespace windlass
