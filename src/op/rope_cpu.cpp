#include <cstring>

#include "op/loops_cpu.h"
#include "op/ops.h"
#include "op/rope.h"

namespace windlass {
namespace {

constexpr IsaKernel<const RopeLoops> kRopeLoops{&baseline::kRopeLoops, &avx2::kRopeLoops, &avx512::kRopeLoops};

// Whether token t is of a document that is longer than the first table is for: then so is the token that many places
// after its first.
bool is_long(const RopeAttrs& attrs, const Batch& batch, int64_t t) {
    if (attrs.long_frequencies.empty()) return false;
    const int64_t length = batch.sequence_length;
    if (batch.cached > 0 || batch.length_at_least > 0)
        return std::max(batch.length_at_least, batch.cached + length) > attrs.short_length;
    const int64_t first = batch.doc_start[t], at = first + attrs.short_length;
    return at < length && batch.doc_start[t / length * length + at] == first;
}

float* narrowed(const std::vector<double>& numbers, Scratch& scratch) {
    float* const to = scratch.floats(std::ssize(numbers));
    std::transform(numbers.begin(), numbers.end(), to, [](double number) { return static_cast<float>(number); });
    return to;
}

// The cosines and sines of a token's pairs, backwards those of the negative angles.
class TokenAngles {
  public:
    TokenAngles(const OpCall& call, bool backwards, Scratch& scratch)
        : attrs_(call.spec->get<RopeAttrs>()),
          batch_(*call.batch),
          backwards_(backwards),
          short_(narrowed(attrs_.frequencies, scratch)),
          long_(narrowed(attrs_.long_frequencies, scratch)) {}

    void write(int64_t t, float* cos, float* sin) const {
        const int64_t pairs = std::ssize(attrs_.frequencies);
        const int32_t position = batch_.positions[t];
        kRopeLoops.pick()->angles(backwards_ ? -position : position, is_long(attrs_, batch_, t) ? long_ : short_, cos,
                                  sin, pairs);
        if (attrs_.scale == 1) return;
        const auto scale = static_cast<float>(attrs_.scale);
        for (int64_t i = 0; i < pairs; ++i) {
            cos[i] *= scale;
            sin[i] *= scale;
        }
    }

  private:
    const RopeAttrs& attrs_;
    const Batch& batch_;
    bool backwards_;
    const float *short_, *long_;
};

void rotate_row(const RopeAttrs& attrs, const float* x, const float* cos, const float* sin, float* y) {
    const RopeLoops& loops = *kRopeLoops.pick();
    const int64_t pairs = std::ssize(attrs.frequencies), size = 2 * pairs + attrs.still;
    const auto copy = [&](int64_t begin, int64_t count) {
        std::memcpy(y + begin, x + begin, static_cast<size_t>(count) * sizeof(float));
    };
    if (attrs.still == 0) {
        loops.rotate(x, cos, sin, y, attrs.heads, pairs);
    } else {
        for (int64_t head = 0; head < attrs.heads; ++head) {
            loops.rotate(x + head * size, cos, sin, y + head * size, 1, pairs);
            copy(head * size + 2 * pairs, attrs.still);
        }
    }
    if (attrs.passed > 0) copy(attrs.heads * size, attrs.passed);
}

// Rotates the rows d * T + t of `in` by the angles of token t (backwards: by the negative angles), for all
// directions d. Angles are computed once a token.
void rotate_rows(const OpCall& call, const Tensor& in, const Output& out, int64_t directions, bool backwards,
                 Team& team) {
    const auto& attrs = call.spec->get<RopeAttrs>();
    const int64_t pairs = std::ssize(attrs.frequencies);
    const int64_t tokens = call.size->tokens(), cols = call.spec->in[0].cols;
    Scratch scratch(call.scratch);
    const TokenAngles of_token(call, backwards, scratch);
    const WorkerRows x(scratch, *call.size, cols), y(scratch, *call.size, cols), angles(scratch, *call.size, 2 * pairs);
    for_row_chunks(tokens, rows_per_chunk(cols), team, [&](int64_t begin, int64_t end, int worker) {
        float *const cos = angles[worker], *const sin = cos + pairs;
        for (int64_t t = begin; t < end; ++t) {
            of_token.write(t, cos, sin);
            for (int64_t d = 0; d < directions; ++d) {
                const int64_t row = d * tokens + t;
                float* const to = out.begin_row(row, y[worker]);
                rotate_row(attrs, read_row(in, row, cols, x[worker]), cos, sin, to);
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
