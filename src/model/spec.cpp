#include "model/spec.h"

#include "base/math.h"
#include "op/ops.h"

namespace windlass {
namespace {

constexpr double kSweepsOfForward = 3.0;  // a training step: forward, and backward twice that

// Pairs of a query and a key it sees, per token of a row of T: T / 2, or with a window w < T, w - w^2 / 2T.
double keys_per_token(int64_t sequence_length, int64_t window) {
    const double T = static_cast<double>(sequence_length);
    const double w = window > 0 ? std::min(T, static_cast<double>(window)) : T;
    return sequence_length == 0 ? 0.0 : w - w * w / (2.0 * T);
}

}  // namespace

DType files_type(const ModelSpec& model) {
    DType type = model.params.empty() ? DType::f32 : model.params[0].file_dtype;
    for (const ParamSpec& param : model.params) {
        if (!param.added && param.file_dtype != type) type = DType::f32;
    }
    return type;
}

std::vector<int64_t> global_offsets(const ModelSpec& model) {
    constexpr int64_t kElementsPerBlock = 256;  // of the state formats in blocks, and of counters drawn together
    std::vector<int64_t> starts;
    int64_t end = 0;
    for (const ParamSpec& param : model.params) {
        starts.push_back(end);
        end += round_up(param.numel(), kElementsPerBlock);
    }
    return starts;
}

int64_t ModelSpec::param_count() const {
    int64_t count = 0;
    for (const ParamSpec& param : params) count += param.numel();
    return count;
}

int64_t ModelSpec::matmul_param_count() const {
    std::vector<uint8_t> counts(params.size());
    for (const Block& block : blocks) {
        for (const Node& node : block.program->nodes) {
            if (node.op == &kEmbedding) continue;
            for (const int weight : node.weights)
                counts[static_cast<size_t>(block.params[static_cast<size_t>(weight)])] = 1;
        }
    }
    int64_t count = 0;
    for (size_t i = 0; i < params.size(); ++i) count += counts[i] ? params[i].numel() : 0;
    return count;
}

double ModelSpec::training_flops_per_token(int64_t sequence_length) const {
    double flops = 2.0 * static_cast<double>(matmul_param_count());
    for (const Block& block : blocks) {
        for (const Node& node : block.program->nodes) {
            if (node.op != &kAttention) continue;
            const auto& attention = node.spec.get<AttentionAttrs>();
            // Two products, q k^T and the weighted sum of v, of H * D multiply-adds a pair each.
            flops += 4.0 * static_cast<double>(attention.heads * attention.head_size) *
                     keys_per_token(sequence_length, attention.window);
        }
    }
    return kSweepsOfForward * flops;
}

}  // namespace windlass
