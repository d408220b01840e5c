// gpt2_reference.h: GPT-2's loss again, in double precision, as plain as it can be written: for derivatives by
// differences. Any weights, of a golden model's shape; one document a row.
#pragma once

#include <cmath>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/unit/run/engine_fixture.h"

namespace windlass {

using DoubleWeights = std::map<std::string, std::vector<double>>;  // by name

class Gpt2Reference {
  public:
    explicit Gpt2Reference(const Json& config)
        : layers_(config.at("n_layer")),
          hidden_(config.at("n_embd")),
          inner_(config.at("n_inner")),
          heads_(config.at("n_head")),
          vocab_(config.at("vocab_size")),
          norm_eps_(config.at("layer_norm_epsilon")) {}

    // The mean over the targets that are not ignored.
    double loss(const DoubleWeights& weights, const TestBatch& batch) const {
        double sum = 0;
        for (int64_t row = 0; row < batch.row_count; ++row)
            sum += row_loss(weights, batch, row * batch.sequence_length);
        return sum / static_cast<double>(batch.target_count());
    }

  private:
    using Values = std::vector<double>;  // [T, columns]

    static size_t at(int64_t index) { return static_cast<size_t>(index); }

    double row_loss(const DoubleWeights& w, const TestBatch& batch, int64_t first) const {
        const int64_t T = batch.sequence_length, C = hidden_;
        const Values &tokens = w.at("transformer.wte.weight"), &positions = w.at("transformer.wpe.weight");
        Values x(at(T * C));
        for (int64_t i = 0; i < T * C; ++i)
            x[at(i)] = tokens[at(batch.tokens[at(first + i / C)] * C + i % C)] + positions[at(i)];
        for (int64_t layer = 0; layer < layers_; ++layer)
            x = block(w, fmt::format("transformer.h.{}.", layer), std::move(x), T);
        x = layer_norm(w, "transformer.ln_f", x);
        double sum = 0;
        for (int64_t t = 0; t < T; ++t) {
            const int32_t target = batch.targets[at(first + t)];
            if (target != kIgnored) sum += token_loss(tokens, &x[at(t * C)], target);
        }
        return sum;
    }

    double token_loss(const Values& table, const double* x, int32_t target) const {
        Values logits(at(vocab_));
        for (int64_t v = 0; v < vocab_; ++v)
            for (int64_t c = 0; c < hidden_; ++c) logits[at(v)] += table[at(v * hidden_ + c)] * x[c];
        const double most = *std::max_element(logits.begin(), logits.end());
        double sum = 0;
        for (const double logit : logits) sum += std::exp(logit - most);
        return most + std::log(sum) - logits[at(target)];
    }

    Values block(const DoubleWeights& w, const std::string& name, Values x, int64_t T) const {
        const int64_t C = hidden_;
        const Values qkv = linear(w, name + "attn.c_attn", layer_norm(w, name + "ln_1", x), C, 3 * C);
        add(x, linear(w, name + "attn.c_proj", attention(qkv, T), C, C));
        Values inner = linear(w, name + "mlp.c_fc", layer_norm(w, name + "ln_2", x), C, inner_);
        for (double& v : inner)
            v = 0.5 * v * (1 + std::tanh(std::sqrt(2 * std::numbers::inv_pi) * (v + 0.044715 * v * v * v)));
        add(x, linear(w, name + "mlp.c_proj", inner, inner_, C));
        return x;
    }

    static void add(Values& x, const Values& y) {
        for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    }

    Values layer_norm(const DoubleWeights& w, const std::string& name, const Values& x) const {
        const Values &scale = w.at(name + ".weight"), &shift = w.at(name + ".bias");
        const size_t C = scale.size();
        Values y(x.size());
        for (size_t row = 0; row < x.size(); row += C) {
            double mean = 0, variance = 0;
            for (size_t c = 0; c < C; ++c) mean += x[row + c] / static_cast<double>(C);
            for (size_t c = 0; c < C; ++c) variance += std::pow(x[row + c] - mean, 2) / static_cast<double>(C);
            for (size_t c = 0; c < C; ++c)
                y[row + c] = (x[row + c] - mean) / std::sqrt(variance + norm_eps_) * scale[c] + shift[c];
        }
        return y;
    }

    // Weights are [in, out].
    static Values linear(const DoubleWeights& w, const std::string& name, const Values& x, int64_t in, int64_t out) {
        const Values &matrix = w.at(name + ".weight"), &bias = w.at(name + ".bias");
        const int64_t T = std::ssize(x) / in;
        Values y(at(T * out));
        for (int64_t t = 0; t < T; ++t) {
            for (int64_t o = 0; o < out; ++o) {
                double sum = bias[at(o)];
                for (int64_t i = 0; i < in; ++i) sum += x[at(t * in + i)] * matrix[at(i * out + o)];
                y[at(t * out + o)] = sum;
            }
        }
        return y;
    }

    // qkv: [T, 3 C]; causal, scores over the root of the head's size.
    Values attention(const Values& qkv, int64_t T) const {
        const int64_t C = hidden_, D = C / heads_;
        Values y(at(T * C));
        for (int64_t head = 0; head < heads_; ++head) {
            for (int64_t t = 0; t < T; ++t) {
                Values scores(at(t + 1));
                double sum = 0;
                for (int64_t s = 0; s <= t; ++s) {
                    double score = 0;
                    for (int64_t d = 0; d < D; ++d)
                        score += qkv[at(t * 3 * C + head * D + d)] * qkv[at(s * 3 * C + C + head * D + d)];
                    sum += scores[at(s)] = std::exp(score / std::sqrt(static_cast<double>(D)));
                }
                for (int64_t s = 0; s <= t; ++s) {
                    for (int64_t d = 0; d < D; ++d)
                        y[at(t * C + head * D + d)] += scores[at(s)] / sum * qkv[at(s * 3 * C + 2 * C + head * D + d)];
                }
            }
        }
        return y;
    }

    int64_t layers_, hidden_, inner_, heads_, vocab_;
    double norm_eps_;
};

}  // namespace windlass
