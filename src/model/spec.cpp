#include "model/spec.h"

#include "base/math.h"

namespace windlass {

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

AdapterSettings AdapterSettings::of_layer(std::string_view layer) const {
    AdapterSettings own{.kind = kind,
                        .rank = rank,
                        .scale = scale,
                        .nonzeros = nonzeros,
                        .seed = seed,
                        .scales_input = scales_input,
                        .has_magnitudes = has_magnitudes};
    if (const auto ids = tokens.find(layer); ids != tokens.end())
        return {.kind = kind, .rank = std::ssize(ids->second), .tokens = {*ids}};
    const auto found = layers.find(layer);
    if (found == layers.end()) return own;
    own.rank = found->second.rank;
    own.scale = found->second.scale;
    own.scales_input = found->second.scales_input;
    return own;
}

int64_t ModelSpec::param_count() const {
    int64_t count = 0;
    for (const ParamSpec& param : params) count += param.numel();
    return count;
}

}  // namespace windlass
