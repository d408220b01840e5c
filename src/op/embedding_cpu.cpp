#include "op/embedding.h"

#include <array>
#include <cstring>

#include "base/math.h"
#include "op/factors.h"
#include "op/ops.h"

namespace windlass {
namespace {

constexpr int64_t kPanelCols = 128;  // of the gradient, for one worker: 512 bytes of f32 are a fair piece of a row

// The row of the table for token t.
int64_t index_of(const OpCall& call, int64_t t) {
    const auto& attrs = call.spec->get<EmbeddingAttrs>();
    const int32_t* const ids = attrs.index == EmbeddingAttrs::Index::token ? call.batch->tokens : call.batch->positions;
    const int64_t index = ids[t] + attrs.offset;
    const int64_t rows = call.spec->weights[0][0];
    WINDLASS_CHECK(index >= 0 && index < rows, "token {} needs row {} of {}", t, index, rows);
    return index;
}

void zero(const Tensor& target, Team& team) {
    for_row_chunks(target.rows(), rows_per_chunk(target.cols()), team, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            std::memset(target.as<float>() + row * target.row_stride, 0,
                        static_cast<size_t>(target.cols()) * sizeof(float));
        }
    });
}

}  // namespace

void embedding_forward_cpu(const OpCall& call, Stream& stream) {
    const Output out{call.out[0]};
    const int64_t cols = out.value.cols();
    Scratch scratch(call.scratch);
    const WorkerRows rows(scratch, *call.size, cols);
    for_row_chunks(out.value.rows(), rows_per_chunk(cols), cpu_team(stream),
                   [&](int64_t begin, int64_t end, int worker) {
                       for (int64_t t = begin; t < end; ++t) {
                           float* const to = out.begin_row(t, rows[worker]);
                           read_weight_row(call.weights[0], index_of(call, t), call.size->compute, to);
                           out.end_row(t, to);
                       }
                   });
}

// Every panel of columns visits the tokens in their order, so sums of rows that occur often have one order.
void embedding_backward_cpu(const OpCall& call, Stream& stream) {
    const GradientSink& sink = call.sinks[0];
    if (!sink.wanted()) return;
    WINDLASS_CHECK(sink.target.dtype == DType::f32, "the gradient of a table accumulates in f32");
    const Tensor &grad = call.grad_out[0], &target = sink.target;
    Team& team = cpu_team(stream);
    if (sink.first) zero(target, team);
    const int64_t cols = target.cols();
    team.parallel_for(div_up(cols, kPanelCols), [&](int64_t panel, int) {
        const int64_t col = panel * kPanelCols, n = std::min(kPanelCols, cols - col);
        std::array<float, kPanelCols> buffer;
        for (int64_t t = 0; t < grad.rows(); ++t) {
            const float* const from = read_numbers(grad, t * grad.row_stride + col, n, buffer.data());
            convert_loops().add(from, target.as<float>() + index_of(call, t) * target.row_stride + col, n);
        }
    });
}

namespace {

// Row i of left_j^T right_j is the combination of right_j's rows by column i of left_j.
void tangents_of_factors(const OpCall& call, Team& team) {
    const Output out{call.tangent_out[0]};
    const Tensor &left = call.weights[0].left, &right = call.weights[0].right;
    const int64_t cols = out.value.cols(), tokens = call.size->tokens(), rank = left.rows() / call.size->k;
    Scratch scratch(call.scratch);
    const WorkerRows rows(scratch, *call.size, cols);
    for_row_chunks(out.value.rows(), rows_per_chunk(cols), team, [&](int64_t begin, int64_t end, int worker) {
        std::array<float, kDirectionRankMax> scales;
        for (int64_t at = begin; at < end; ++at) {
            const int64_t first = at / tokens * rank, index = index_of(call, at % tokens);
            for (int64_t k = 0; k < rank; ++k)
                scales[static_cast<size_t>(k)] = left.as<float>()[(first + k) * left.row_stride + index];
            float* const to = out.begin_row(at, rows[worker]);
            std::memset(to, 0, static_cast<size_t>(cols) * sizeof(float));
            factor_loops().add_combination(right.as<float>() + first * right.row_stride, right.row_stride,
                                           scales.data(), rank, to, cols);
            out.end_row(at, to);
        }
    });
}

}  // namespace

void embedding_tangent_cpu(const OpCall& call, Stream& stream) {
    if (!call.weights[0].left.empty()) return tangents_of_factors(call, cpu_team(stream));
    const Output out{call.tangent_out[0]};
    const Tensor& direction = call.weights[0].direction;  // [k * V, C]
    const int64_t cols = out.value.cols(), tokens = call.size->tokens(), table_rows = call.spec->weights[0][0];
    Scratch scratch(call.scratch);
    const WorkerRows rows(scratch, *call.size, cols);
    for_row_chunks(out.value.rows(), rows_per_chunk(cols), cpu_team(stream),
                   [&](int64_t begin, int64_t end, int worker) {
                       for (int64_t at = begin; at < end; ++at) {
                           const int64_t row = at / tokens * table_rows + index_of(call, at % tokens);
                           const float* const from = read_row(direction, row, cols, rows[worker]);
                           float* const to = out.begin_row(at, rows[worker]);
                           if (from != to) std::memcpy(to, from, static_cast<size_t>(cols) * sizeof(float));
                           out.end_row(at, to);
                       }
                   });
}

}  // namespace windlass
