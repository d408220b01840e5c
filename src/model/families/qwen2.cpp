// qwen2.cpp: Qwen 2 and 2.5: Llama's block with biases on q, k and v only. Files name a window even where it is
// switched off, and their vocabulary has more rows than the tokenizer has tokens.
#include "model/families/all.h"
#include "model/families/gguf_decoder.h"

namespace windlass {
namespace qwen2_family {

DecoderSpec read(const HfConfig& config) {
    DecoderSpec spec = read_decoder(config);
    for (LayerSpec& layer : spec.layers) layer.qkv_bias = true;
    spec.set_windows(read_qwen_windows(config, spec.layers.size()));
    return spec;
}

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    return build_decoder("qwen2", read(config), config, tensors);
}

GgufModel gguf(const HfConfig& config, const ModelSpec& model) {
    const DecoderSpec spec = read(config);
    GgufModel out = gguf_decoder("qwen2", spec, config, model, {kGgufMatrices, kGgufQkvBiases});
    note_windows(spec, out);
    return out;
}

}  // namespace qwen2_family

const Family kQwen2 = {"qwen2", qwen2_family::build, qwen2_family::gguf};

}  // namespace windlass
