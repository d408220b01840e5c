// model_work.h: what the training of a model computes by the count that papers use, which knows no schedule.
#pragma once

#include <algorithm>
#include <vector>

#include "base/index.h"
#include "model/spec.h"
#include "op/ops.h"

namespace windlass {

// Products with weights: parameters without tables that are only looked up ("mat" of the benchmarks).
inline int64_t matmul_param_count(const ModelSpec& model) {
    std::vector<bool> multiplies(model.params.size());
    for (const Block& block : model.blocks) {
        for (const Node& node : block.program->nodes) {
            if (node.op == &kEmbedding) continue;
            for (const int weight : node.weights) multiplies[at(block.params[at(weight)])] = true;
        }
    }
    int64_t count = 0;
    for (size_t i = 0; i < model.params.size(); ++i) count += multiplies[i] ? model.params[i].numel() : 0;
    return count;
}

// Pairs of a query and a key it sees, per token of a row of T: T / 2, or with a window w < T, w - w^2 / 2T.
inline double keys_per_token(int64_t row_length, int64_t window) {
    const auto T = static_cast<double>(row_length);
    const double w = window > 0 ? std::min(T, static_cast<double>(window)) : T;
    return row_length == 0 ? 0.0 : w - w * w / (2.0 * T);
}

// 6 N + attention (causal half counted), per token of a row of this length, for a whole training step.
inline double training_flops_per_token(const ModelSpec& model, int64_t row_length) {
    constexpr double kSweepsOfForward = 3.0;  // forward, and backward twice that
    double flops = 2.0 * static_cast<double>(matmul_param_count(model));
    for (const Block& block : model.blocks) {
        for (const Node& node : block.program->nodes) {
            if (node.op != &kAttention) continue;
            const auto& attention = node.spec.get<AttentionAttrs>();
            // Two products, q k^T and the weighted sum of v, of H * D multiply-adds a pair each.
            flops += 4.0 * static_cast<double>(attention.heads * attention.head_size) *
                     keys_per_token(row_length, attention.window);
        }
    }
    return kSweepsOfForward * flops;
}

}  // namespace windlass
