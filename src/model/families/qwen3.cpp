// qwen3.cpp: Qwen 3, the dense ones: Llama's block with a norm on each head of q and k before rope, and heads whose
// size is not hidden / heads.
#include "model/families/all.h"
#include "model/families/gguf_decoder.h"

namespace windlass {
namespace qwen3_family {

DecoderSpec read(const HfConfig& config) {
    DecoderSpec spec = read_decoder(config);
    for (LayerSpec& layer : spec.layers) {
        layer.qk_norm = QkNorm::per_head;
        layer.qkv_bias = layer.output_bias = config.flag("attention_bias", false);
    }
    spec.set_windows(read_qwen_windows(config, spec.layers.size()));
    return spec;
}

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    return build_decoder("qwen3", read(config), config, tensors);
}

GgufModel gguf(const HfConfig& config, const ModelSpec& model) {
    const DecoderSpec spec = read(config);
    GgufModel out = gguf_decoder("qwen3", spec, config, model, {kGgufMatrices, kGgufQkNorms});
    note_windows(spec, out);
    return out;
}

}  // namespace qwen3_family

const Family kQwen3 = {"qwen3", qwen3_family::build, qwen3_family::gguf};

}  // namespace windlass
