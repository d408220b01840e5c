#include "model/spec.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/math.h"
#include "op/ops.h"
#include "tensor/e4m3.h"

namespace windlass {
namespace {

constexpr double kSweepsOfForward = 3.0;  // a training step: forward, and backward twice that

bool is_f8(const ParamSpec& param) {
    return param.store_dtype == DType::f8_e4m3;
}

// Pairs of a query and a key it sees, per token of a row of T: T / 2, or with a window w < T, w - w^2 / 2T.
double keys_per_token(int64_t row_length, int64_t window) {
    const double T = static_cast<double>(row_length);
    const double w = window > 0 ? std::min(T, static_cast<double>(window)) : T;
    return row_length == 0 ? 0.0 : w - w * w / (2.0 * T);
}

}  // namespace

void set_store(ModelSpec& model, StoreType store) {
    const DType kept = store == StoreType::split ? DType::bf16 : files_type(model);
    for (ParamSpec& param : model.params) {
        param.store = store;
        param.store_dtype = kept;
    }
}

DType files_type(const ModelSpec& model) {
    DType type = model.params.empty() ? DType::f32 : model.params[0].file_dtype;
    for (const ParamSpec& param : model.params) type = param.file_dtype == type ? type : DType::f32;
    return type;
}

std::string_view folding_name(Folding folding) {
    static constexpr std::array<std::string_view, 3> kNames = {"each_step", "each_window", "never"};
    return kNames[static_cast<size_t>(folding)];
}

std::optional<Folding> folding_from_name(std::string_view name) {
    for (const Folding folding : {Folding::each_step, Folding::each_window, Folding::never}) {
        if (folding_name(folding) == name) return folding;
    }
    return std::nullopt;
}

void set_folding(ModelSpec& model, Folding folding) {
    for (ParamSpec& param : model.params) {
        const bool each_step = folding == Folding::never && param.shape.rank() < 2;
        param.folding = each_step ? Folding::each_step : folding;
    }
}

void keep_in_8_bits(ModelSpec& model) {
    for (ParamSpec& param : model.params) {
        WINDLASS_CHECK(param.store == StoreType::as_file, "{} is kept as a split master", param.name);
        if (param.shape.rank() >= 2) param.store_dtype = DType::f8_e4m3;
    }
}

bool is_kept_in_8_bits(const ModelSpec& model) {
    return std::ranges::any_of(model.params, &is_f8);
}

void keep_in_4_bits(ModelSpec& model) {
    for (ParamSpec& param : model.params) {
        WINDLASS_CHECK(param.store == StoreType::as_file, "{} is kept as a split master", param.name);
        if (param.shape.rank() == 2 && param.layer >= 0) param.store_dtype = DType::nf4;
    }
}

bool is_kept_in_4_bits(const ModelSpec& model) {
    return std::ranges::any_of(model.params, [](const ParamSpec& param) { return param.store_dtype == DType::nf4; });
}

std::vector<int> scale_exponents(const ModelSpec& model) {
    std::vector<int> exponents;
    exponents.reserve(model.params.size());
    for (const ParamSpec& param : model.params) exponents.push_back(param.scale_exponent);
    return exponents;
}

void set_scale_exponents(std::span<const int> exponents, std::string_view where, ModelSpec& model) {
    if (exponents.size() != model.params.size())
        throw UserError(ExitCode::storage, where, "has {} scales of weights in 8 bits, the model has {} parameters",
                        exponents.size(), model.params.size())
            .hint("the model folder that this run started from");
    for (size_t index = 0; index < exponents.size(); ++index) {
        ParamSpec& param = model.params[index];
        const int least = is_f8(param) ? kE4m3ScaleMin : 0, most = is_f8(param) ? kE4m3ScaleMax : 0;
        if (exponents[index] < least || exponents[index] > most)
            throw UserError(ExitCode::storage, where, "the scale of {} is 2^{}, expected an exponent of {} to {}",
                            param.name, exponents[index], least, most)
                .hint("the model folder that this run started from");
        param.scale_exponent = exponents[index];
    }
}

std::vector<int64_t> element_starts(const ModelSpec& model) {
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

double ModelSpec::training_flops_per_token(int64_t row_length) const {
    double flops = 2.0 * static_cast<double>(matmul_param_count());
    for (const Block& block : blocks) {
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
