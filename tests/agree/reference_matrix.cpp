#include <cmath>

#include "op/ops.h"
#include "op/sparse_permutation.h"
#include "tests/agree/reference.h"

namespace windlass::agree {
namespace {

// a b^T, [rows of a, rows of b]
Matrix times_transposed(const Matrix& a, const Matrix& b) {
    Matrix out(a.rows, b.rows);
    for (int64_t i = 0; i < a.rows; ++i) {
        for (int64_t j = 0; j < b.rows; ++j) {
            double sum = 0;
            for (int64_t c = 0; c < a.cols; ++c) sum += a.at(i, c) * b.at(j, c);
            out.at(i, j) = sum;
        }
    }
    return out;
}

Matrix transposed(const Matrix& a) {
    Matrix out(a.cols, a.rows);
    for (int64_t i = 0; i < a.rows; ++i) {
        for (int64_t j = 0; j < a.cols; ++j) out.at(j, i) = a.at(i, j);
    }
    return out;
}

Matrix columns(const Matrix& a, int64_t begin, int64_t count) {
    Matrix out(a.rows, count);
    for (int64_t i = 0; i < a.rows; ++i) {
        for (int64_t j = 0; j < count; ++j) out.at(i, j) = a.at(i, begin + j);
    }
    return out;
}

// Of q's one row (q [1, D]) over keys and values [n, D].
std::vector<double> attend(const Matrix& q, const Matrix& k, const Matrix& v, double scale, double softcap) {
    Matrix scores = times_transposed(q, k);
    double sum = 0;
    for (double& score : scores.numbers) {
        score *= scale;
        if (softcap > 0) score = softcap * std::tanh(score / softcap);
        sum += score = std::exp(score);
    }
    std::vector<double> out(static_cast<size_t>(v.cols));
    for (int64_t j = 0; j < v.rows; ++j) {
        for (int64_t d = 0; d < v.cols; ++d) out[static_cast<size_t>(d)] += scores.at(0, j) / sum * v.at(j, d);
    }
    return out;
}

Matrix rows_of(const Matrix& a, int64_t begin, int64_t end) {
    Matrix out(end - begin, a.cols);
    std::copy(a.numbers.begin() + begin * a.cols, a.numbers.begin() + end * a.cols, out.numbers.begin());
    return out;
}

}  // namespace

Matrix reference_linear(const Problem& problem) {
    const Matrix& w = problem.weights[0];
    Matrix out = times_transposed(problem.in[0], problem.spec->get<LinearAttrs>().in_out ? transposed(w) : w);
    if (problem.weights.size() == 1) return out;
    for (int64_t t = 0; t < out.rows; ++t) {
        for (int64_t f = 0; f < out.cols; ++f) out.at(t, f) += problem.weights[1].at(0, f);
    }
    return out;
}

Matrix reference_magnitude(const Problem& problem) {
    const auto& [in_out, scale] = problem.spec->get<MagnitudeAttrs>();
    const std::vector<Matrix>& weights = problem.weights;
    const Matrix w = in_out ? transposed(weights[1]) : weights[1];
    const Matrix added = times_transposed(weights[3], transposed(weights[2]));
    Matrix out = problem.in[0];
    for (int64_t j = 0; j < out.cols; ++j) {
        double squares = 0;
        for (int64_t i = 0; i < w.cols; ++i) squares += std::pow(w.at(j, i) + scale * added.at(j, i), 2);
        const double exact = std::sqrt(squares);
        const double norm = problem.compute == DType::bf16 ? to_float(to_bf16(static_cast<float>(exact))) : exact;
        const double c = norm > 0 ? weights[0].at(0, j) / norm : 0;
        const double bias = weights.size() > 4 ? weights[4].at(0, j) : 0;
        for (int64_t t = 0; t < out.rows; ++t) out.at(t, j) = c * (out.at(t, j) - bias) + bias;
    }
    return out;
}

// The matrix written out, and a product with it.
Matrix reference_sparse(const Problem& problem) {
    const auto& attrs = problem.spec->get<SparseAttrs>();
    const SparseShape& shape = attrs.positions->shape;
    Matrix dense(shape.rows, shape.cols);
    for (int64_t k = 0; k < shape.nonzeros; ++k) {
        const SparseLane lane = sparse_lane(shape.seed, k, shape.rows);
        for (int64_t i = 0; i < shape.rows; ++i)
            dense.at(i, place_in_lane(lane, static_cast<uint32_t>(i)) % shape.cols) += problem.weights[0].at(i, k);
    }
    const bool project = attrs.direction == SparseAttrs::Direction::project;
    return times_transposed(problem.in[0], project ? transposed(dense) : dense);
}

Matrix reference_attention(const Problem& problem) {
    const auto& [heads, key_heads, size, scale, window, softcap] = problem.spec->get<AttentionAttrs>();
    const bool packed = problem.in.size() == 1;
    const Matrix q = packed ? columns(problem.in[0], 0, heads * size) : problem.in[0];
    const Matrix k = packed ? columns(problem.in[0], heads * size, key_heads * size) : problem.in[1];
    const Matrix v = packed ? columns(problem.in[0], (heads + key_heads) * size, key_heads * size) : problem.in[2];
    const Batch& batch = *problem.batch;
    Matrix out(q.rows, heads * size);
    for (int64_t t = 0; t < q.rows; ++t) {
        const int64_t row = t / batch.sequence_length * batch.sequence_length;
        int64_t begin = row + batch.doc_start[t];
        if (window > 0) begin = std::max(begin, t - window + 1);
        for (int64_t head = 0; head < heads; ++head) {
            const int64_t at = head / (heads / key_heads) * size;
            const std::vector<double> mixed =
                attend(columns(rows_of(q, t, t + 1), head * size, size), columns(rows_of(k, begin, t + 1), at, size),
                       columns(rows_of(v, begin, t + 1), at, size), scale, softcap);
            for (int64_t d = 0; d < size; ++d) out.at(t, head * size + d) = mixed[static_cast<size_t>(d)];
        }
    }
    return out;
}

// By the papers' formulas, in likelihoods rather than losses.
Matrix reference_preference(const Problem& problem) {
    const auto& [kind, beta, with_prompt] = problem.spec->get<PreferenceAttrs>();
    const Batch& batch = *problem.batch;
    Matrix out(batch.count(), 1);
    for (int64_t pair = 0; pair < batch.rows / 2; ++pair) {
        std::array<double, 2> likelihood = {}, tokens = {};
        double prompt_loss = 0, prompt_tokens = 0;
        for (int64_t side = 0; side < 2; ++side) {
            for (int64_t i = 0; i < batch.sequence_length; ++i) {
                const int64_t t = (2 * pair + side) * batch.sequence_length + i;
                if (with_prompt && i < batch.answers[2 * pair + side]) {
                    prompt_loss += problem.in[0].at(t, 0) * (side == 0);
                    prompt_tokens += (side == 0) && batch.targets[t] != kIgnored;
                    continue;
                }
                likelihood[static_cast<size_t>(side)] -= problem.in[0].at(t, 0);
                tokens[static_cast<size_t>(side)] += batch.targets[t] != kIgnored;
            }
        }
        if (tokens[0] == 0 || tokens[1] == 0) continue;
        const auto log_sigmoid = [](double x) { return -std::log(1 + std::exp(-x)); };
        const auto log_odds = [&](size_t side) {
            const double p = std::exp(likelihood[side] / tokens[side]);
            return std::log(p / (1 - p));
        };
        for (size_t side = 0; side < 2; ++side) {
            const double mean = kind == PreferenceAttrs::Kind::dpo ? 1 : tokens[side];
            const int64_t first = (2 * pair + static_cast<int64_t>(side)) * batch.sequence_length;
            out.at(first + 1, 0) = beta * likelihood[side] / mean;
            out.at(first + 2, 0) = -out.at(first + 1, 0);
        }
        out.at(2 * pair * batch.sequence_length, 0) =
            kind == PreferenceAttrs::Kind::dpo ? -log_sigmoid(beta * (likelihood[0] - likelihood[1]))
                                               : (prompt_loss - likelihood[0]) / (prompt_tokens + tokens[0]) -
                                                     beta * log_sigmoid(log_odds(0) - log_odds(1));
    }
    return out;
}

Matrix reference_cross_entropy(const Problem& problem) {
    Matrix logits = times_transposed(problem.in[0], problem.weights[0]);
    if (problem.in.size() > 1) {
        const Matrix second = times_transposed(problem.in[1], problem.weights[1]);
        for (size_t i = 0; i < logits.numbers.size(); ++i) logits.numbers[i] += second.numbers[i];
    }
    const auto& [scale, softcap] = problem.spec->get<CrossEntropyAttrs>();
    for (double& logit : logits.numbers) {
        logit *= scale;
        if (softcap > 0) logit = softcap * std::tanh(logit / softcap);
    }
    Matrix out(logits.rows, 1);
    for (int64_t t = 0; t < logits.rows; ++t) {
        const int32_t target = problem.batch->targets[t];
        if (target == kIgnored) continue;
        double sum = 0;
        for (int64_t i = 0; i < logits.cols; ++i) sum += std::exp(logits.at(t, i) - logits.at(t, target));
        out.at(t, 0) = std::log(sum);
    }
    return out;
}

}  // namespace windlass::agree
