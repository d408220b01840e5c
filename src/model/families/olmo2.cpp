// olmo2.cpp: OLMo 2: the halves of a layer have their norms after them instead of before, and q and k have norms over
// all heads as one.
#include "model/families/all.h"
#include "model/families/gguf_decoder.h"

namespace windlass {
namespace olmo2_family {

DecoderSpec read(const HfConfig& config) {
    DecoderSpec spec = read_decoder(config, {.norm_eps = 1e-5});
    for (LayerSpec& layer : spec.layers) {
        layer.norms = NormOrder::after;
        layer.qk_norm = QkNorm::whole;
        layer.qkv_bias = layer.output_bias = config.flag("attention_bias", false);
    }
    return spec;
}

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    return build_decoder("olmo2", read(config), config, tensors);
}

// llama.cpp reads a head from its own tensor, tied or not.
GgufModel gguf(const HfConfig& config, const ModelSpec& model) {
    const DecoderSpec spec = read(config);
    require_whole_heads(spec, config.where());
    GgufModel out = gguf_decoder("olmo2", spec, config, model, {kGgufMatrices, kGgufNormsBehind, kGgufQkNorms});
    if (spec.tied) {
        GgufSource head = out.tensors.front();
        head.name = "output.weight";
        out.tensors.push_back(std::move(head));
    }
    return out;
}

}  // namespace olmo2_family

const Family kOlmo2 = {"olmo2", olmo2_family::build, olmo2_family::gguf};

}  // namespace windlass
