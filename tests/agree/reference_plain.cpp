#include <cmath>
#include <numbers>

#include "op/ops.h"
#include "tests/agree/reference.h"

namespace windlass::agree {
namespace {

// out[i] = f(in[0][i], in[1][i], ...)
template <typename F>
Matrix number_by_number(const Problem& problem, F f) {
    Matrix out = problem.in[0];
    for (size_t i = 0; i < out.numbers.size(); ++i) out.numbers[i] = f(i);
    return out;
}

double gelu_by_tanh(double x) {
    const double scale = std::sqrt(2 / std::numbers::pi);
    return x / 2 * (1 + std::tanh(scale * (x + 0.044715 * x * x * x)));
}

}  // namespace

Matrix reference_embedding(const Problem& problem) {
    const auto& attrs = problem.spec->get<EmbeddingAttrs>();
    const Matrix& table = problem.weights[0];
    const bool by_token = attrs.index == EmbeddingAttrs::Index::token;
    Matrix out(problem.batch->count(), table.cols);
    for (int64_t t = 0; t < out.rows; ++t) {
        const int64_t id = (by_token ? problem.batch->tokens : problem.batch->positions)[t] + attrs.offset;
        for (int64_t c = 0; c < out.cols; ++c) out.at(t, c) = table.at(id, c);
    }
    return out;
}

Matrix reference_rms_norm(const Problem& problem) {
    const auto& attrs = problem.spec->get<RmsNormAttrs>();
    const Matrix& x = problem.in[0];
    const int64_t size = x.cols / attrs.groups;
    Matrix out(x.rows, x.cols);
    for (int64_t t = 0; t < x.rows; ++t) {
        for (int64_t begin = 0; begin < x.cols; begin += size) {
            double squares = 0;
            for (int64_t i = 0; i < size; ++i) squares += x.at(t, begin + i) * x.at(t, begin + i);
            const double root = std::sqrt(squares / static_cast<double>(size) + attrs.eps);
            for (int64_t i = 0; i < size; ++i) {
                out.at(t, begin + i) =
                    x.at(t, begin + i) / root * (problem.weights[0].at(0, i) + (attrs.unit_offset ? 1 : 0));
            }
        }
    }
    return out;
}

Matrix reference_layer_norm(const Problem& problem) {
    const Matrix& x = problem.in[0];
    const auto count = static_cast<double>(x.cols);
    Matrix out(x.rows, x.cols);
    for (int64_t t = 0; t < x.rows; ++t) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < x.cols; ++i) mean += x.at(t, i) / count;
        for (int64_t i = 0; i < x.cols; ++i) variance += (x.at(t, i) - mean) * (x.at(t, i) - mean) / count;
        const double root = std::sqrt(variance + problem.spec->get<LayerNormAttrs>().eps);
        for (int64_t i = 0; i < x.cols; ++i) {
            out.at(t, i) = (x.at(t, i) - mean) / root * problem.weights[0].at(0, i) + problem.weights[1].at(0, i);
        }
    }
    return out;
}

// How many tokens the document of token t has.
int64_t document_length(const Batch& batch, int64_t t) {
    const int64_t begin = t / batch.sequence_length * batch.sequence_length;
    int64_t count = 0;
    for (int64_t other = begin; other < begin + batch.sequence_length; ++other)
        count += batch.doc_start[other] == batch.doc_start[t];
    return count;
}

// The angle is an f32 product by definition: that is what the models were trained with.
Matrix reference_rope(const Problem& problem) {
    const auto& attrs = problem.spec->get<RopeAttrs>();
    const Matrix& x = problem.in[0];
    const auto pairs = static_cast<int64_t>(attrs.frequencies.size());
    Matrix out = x;
    for (int64_t t = 0; t < x.rows; ++t) {
        const bool is_long = !attrs.long_frequencies.empty() && document_length(*problem.batch, t) > attrs.short_length;
        for (int64_t i = 0; i < pairs; ++i) {
            const double frequency = (is_long ? attrs.long_frequencies : attrs.frequencies)[static_cast<size_t>(i)];
            const double angle = static_cast<float>(problem.batch->positions[t]) * static_cast<float>(frequency);
            const double cos = attrs.scale * std::cos(angle), sin = attrs.scale * std::sin(angle);
            for (int64_t head = 0; head < attrs.heads; ++head) {
                const int64_t a = head * (2 * pairs + attrs.still) + i, b = a + pairs;
                out.at(t, a) = x.at(t, a) * cos - x.at(t, b) * sin;
                out.at(t, b) = x.at(t, b) * cos + x.at(t, a) * sin;
            }
        }
    }
    return out;
}

Matrix reference_swiglu(const Problem& problem) {
    const auto& attrs = problem.spec->get<SwigluAttrs>();
    const Matrix &gates = problem.in[0], &ups = attrs.packed ? gates : problem.in[1];
    Matrix out(gates.rows, attrs.packed ? gates.cols / 2 : gates.cols);
    for (int64_t t = 0; t < out.rows; ++t) {
        for (int64_t c = 0; c < out.cols; ++c) {
            const double gate = gates.at(t, c), up = ups.at(t, attrs.packed ? out.cols + c : c);
            out.at(t, c) =
                (attrs.kind == SwigluAttrs::Kind::gelu_tanh ? gelu_by_tanh(gate) : gate / (1 + std::exp(-gate))) * up;
        }
    }
    return out;
}

Matrix reference_gelu(const Problem& problem) {
    const std::vector<double>& x = problem.in[0].numbers;
    if (problem.spec->get<GeluAttrs>().kind == GeluAttrs::Kind::exact) {
        return number_by_number(problem, [&](size_t i) { return x[i] * std::erfc(-x[i] / std::numbers::sqrt2) / 2; });
    }
    return number_by_number(problem, [&](size_t i) { return gelu_by_tanh(x[i]); });
}

Matrix reference_relu(const Problem& problem) {
    const std::vector<double>& x = problem.in[0].numbers;
    return number_by_number(problem, [&](size_t i) { return std::max(0.0, x[i]); });
}

Matrix reference_tanh(const Problem& problem) {
    const std::vector<double>& x = problem.in[0].numbers;
    return number_by_number(problem, [&](size_t i) { return std::tanh(x[i]); });
}

Matrix reference_add(const Problem& problem) {
    const std::vector<double>&a = problem.in[0].numbers, &b = problem.in[1].numbers;
    return number_by_number(problem, [&](size_t i) { return a[i] + b[i]; });
}

Matrix reference_scale(const Problem& problem) {
    const double factor = problem.spec->get<ScaleAttrs>().factor;
    Matrix out = problem.in[0];
    for (int64_t t = 0; t < out.rows; ++t) {
        for (int64_t c = 0; c < out.cols; ++c)
            out.at(t, c) *= problem.weights.empty() ? factor : factor * problem.weights[0].at(0, c);
    }
    return out;
}

}  // namespace windlass::agree
