// granite.cpp: Granite 3, the dense ones: Llama's block with four factors that the file states: for the embedding, the
// scores and the output of each half of a layer, and a divisor of the logits.
#include "model/families/all.h"
#include "model/families/gguf_decoder.h"

namespace windlass {
namespace granite_family {

double read_factor(const HfConfig& config, const char* key) {
    return config.find_number(key, 1e-6, 1e6).value_or(1.0);
}

DecoderSpec read(const HfConfig& config) {
    DecoderSpec spec = read_decoder(config);
    spec.embedding_scale.factor = read_factor(config, "embedding_multiplier");
    spec.head.scale = 1.0 / read_factor(config, "logits_scaling");
    for (LayerSpec& layer : spec.layers) {
        layer.score_scale = read_factor(config, "attention_multiplier");
        layer.residual_scale = read_factor(config, "residual_multiplier");
        layer.qkv_bias = layer.output_bias = config.flag("attention_bias", false);
        layer.mlp_bias = config.flag("mlp_bias", false);
    }
    return spec;
}

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    return build_decoder("granite", read(config), config, tensors);
}

GgufModel gguf(const HfConfig& config, const ModelSpec& model) {
    GgufModel out = gguf_decoder("granite", read(config), config, model,
                                 {kGgufMatrices, kGgufNeighbours, kGgufLlamaBiases}, {.factors = true});
    add_gguf_number("attention.scale", read_factor(config, "attention_multiplier"), out);
    add_gguf_number("embedding_scale", read_factor(config, "embedding_multiplier"), out);
    add_gguf_number("residual_scale", read_factor(config, "residual_multiplier"), out);
    add_gguf_number("logit_scale", read_factor(config, "logits_scaling"), out);
    return out;
}

}  // namespace granite_family

const Family kGranite = {"granite", granite_family::build, granite_family::gguf};

}  // namespace windlass
