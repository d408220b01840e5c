// smollm3.cpp: SmolLM3: Llama's block; every fourth layer, or those that the file names, knows no positions. If windows
// are switched on, they slide in those layers alone unless the file says in which.
#include "model/families/all.h"
#include "model/families/gguf_decoder.h"

namespace windlass {
namespace smollm3_family {

// By layer, whether positions turn its queries and keys: 1 or 0 in "no_rope_layers", whatever its name says.
std::vector<bool> read_turning_layers(const HfConfig& config, size_t layers) {
    const std::optional<std::vector<double>> stated = config.find_numbers("no_rope_layers", 0, 1);
    const int64_t interval = config.find_integer("no_rope_layer_interval", 1, kLayersMax).value_or(4);
    if (stated && stated->size() < layers)
        throw UserError(ExitCode::model, config.where(), "\"no_rope_layers\" has {} entries for {} layers",
                        stated->size(), layers);
    std::vector<bool> turns;
    for (size_t i = 0; i < layers; ++i)
        turns.push_back(stated ? (*stated)[i] != 0 : (i + 1) % static_cast<size_t>(interval) != 0);
    return turns;
}

DecoderSpec read(const HfConfig& config) {
    static constexpr RopeBase kRopes[] = {{.theta = 2e6}};
    DecoderSpec spec = read_decoder(config, {.tied = true, .rope = {.bases = kRopes}});
    config.integer("num_key_value_heads", 1, kHeadsMax);  // transformers takes 4 where it is missing: better stated
    const std::vector<bool> turns = read_turning_layers(config, spec.layers.size());
    const int64_t stated = read_sliding_window(config, 0);
    const int64_t window = config.flag("use_sliding_window", false) ? stated : 0;
    if (config.has("layer_types")) spec.set_windows(read_windows(config, spec.layers.size(), window, 0));
    for (size_t i = 0; i < spec.layers.size(); ++i) {
        LayerSpec& layer = spec.layers[i];
        if (!turns[i]) layer.rope = nullptr;
        if (!config.has("layer_types") && !turns[i]) layer.window = window;
        layer.qkv_bias = layer.output_bias = config.flag("attention_bias", false);
        layer.mlp_bias = config.flag("mlp_bias", false);
    }
    config.find_integer("pretraining_tp", 1, 1024);  // how a sum was cut during pretraining: the same mathematics
    return spec;
}

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    return build_decoder("smollm3", read(config), config, tensors);
}

GgufModel gguf(const HfConfig& config, const ModelSpec& model) {
    constexpr int64_t kStillStep = 4;  // compiled into llama.cpp
    const DecoderSpec spec = read(config);
    GgufModel out =
        gguf_decoder("smollm3", spec, config, model, {kGgufMatrices, kGgufNeighbours}, {.still_step = kStillStep});
    note_windows(spec, out);
    return out;
}

}  // namespace smollm3_family

const Family kSmollm3 = {"smollm3", smollm3_family::build, smollm3_family::gguf};

}  // namespace windlass
