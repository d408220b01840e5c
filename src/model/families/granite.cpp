// granite.cpp: Granite 3, the dense ones: Llama's block with four factors that the file states: of the embedding, of
// the scores, of what each half of a layer adds, and a divisor of the logits.
#include "model/families/all.h"
#include "model/families/decoder.h"

namespace windlass {
namespace {

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    const auto factor = [&](const char* key) { return config.find_number(key, 1e-6, 1e6).value_or(1.0); };
    DecoderSpec spec = read_decoder(config);
    spec.embedding_scale.factor = factor("embedding_multiplier");
    spec.head.scale = 1.0 / factor("logits_scaling");
    for (LayerSpec& layer : spec.layers) {
        layer.score_scale = factor("attention_multiplier");
        layer.residual_scale = factor("residual_multiplier");
        layer.qkv_bias = layer.output_bias = config.flag("attention_bias", false);
        layer.mlp_bias = config.flag("mlp_bias", false);
    }
    return build_decoder("granite", spec, config, tensors);
}

}  // namespace

const Family kGranite = {"granite", build};

}  // namespace windlass
