// qwen3.cpp: Qwen 3, the dense ones: Llama's block with a norm on each head of q and k before rope, and heads whose
// size is not hidden / heads.
#include "model/families/all.h"
#include "model/families/decoder.h"

namespace windlass {
namespace {

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    DecoderSpec spec = read_decoder(config);
    for (LayerSpec& layer : spec.layers) {
        layer.qk_norm = QkNorm::per_head;
        layer.qkv_bias = layer.output_bias = config.flag("attention_bias", false);
    }
    spec.set_windows(read_qwen_windows(config, spec.layers.size()));
    return build_decoder("qwen3", spec, config, tensors);
}

}  // namespace

const Family kQwen3 = {"qwen3", build};

}  // namespace windlass
