// qwen2.cpp: Qwen 2 and 2.5: Llama's block with biases on q, k and v only. Files name a window even where it is
// switched off, and their vocabulary has more rows than the tokenizer has tokens.
#include "model/families/all.h"
#include "model/families/decoder.h"

namespace windlass {
namespace {

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    DecoderSpec spec = read_decoder(config);
    for (LayerSpec& layer : spec.layers) layer.qkv_bias = true;
    spec.set_windows(read_qwen_windows(config, spec.layers.size()));
    return build_decoder("qwen2", spec, config, tensors);
}

}  // namespace

const Family kQwen2 = {"qwen2", build};

}  // namespace windlass
