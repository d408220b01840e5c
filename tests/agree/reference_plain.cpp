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
                out.at(t, begin + i) = x.at(t, begin + i) / root * problem.weights[0].at(0, i);
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

// The angle is an f32 product by definition: that is what the models were trained with.
Matrix reference_rope(const Problem& problem) {
    const auto& attrs = problem.spec->get<RopeAttrs>();
    const Matrix& x = problem.in[0];
    const auto pairs = static_cast<int64_t>(attrs.frequencies.size());
    Matrix out(x.rows, x.cols);
    for (int64_t t = 0; t < x.rows; ++t) {
        for (int64_t i = 0; i < pairs; ++i) {
            const double angle = static_cast<float>(problem.batch->positions[t]) *
                                 static_cast<float>(attrs.frequencies[static_cast<size_t>(i)]);
            for (int64_t head = 0; head < attrs.heads; ++head) {
                const int64_t a = head * 2 * pairs + i, b = a + pairs;
                out.at(t, a) = x.at(t, a) * std::cos(angle) - x.at(t, b) * std::sin(angle);
                out.at(t, b) = x.at(t, b) * std::cos(angle) + x.at(t, a) * std::sin(angle);
            }
        }
    }
    return out;
}

Matrix reference_swiglu(const Problem& problem) {
    const std::vector<double>&gate = problem.in[0].numbers, &up = problem.in[1].numbers;
    return number_by_number(problem, [&](size_t i) { return gate[i] / (1 + std::exp(-gate[i])) * up[i]; });
}

Matrix reference_gelu(const Problem& problem) {
    const std::vector<double>& x = problem.in[0].numbers;
    if (problem.spec->get<GeluAttrs>().kind == GeluAttrs::Kind::exact) {
        return number_by_number(problem, [&](size_t i) { return x[i] * std::erfc(-x[i] / std::numbers::sqrt2) / 2; });
    }
    const double scale = std::sqrt(2 / std::numbers::pi);
    return number_by_number(
        problem, [&](size_t i) { return x[i] / 2 * (1 + std::tanh(scale * (x[i] + 0.044715 * x[i] * x[i] * x[i]))); });
}

Matrix reference_relu(const Problem& problem) {
    const std::vector<double>& x = problem.in[0].numbers;
    return number_by_number(problem, [&](size_t i) { return std::max(0.0, x[i]); });
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
