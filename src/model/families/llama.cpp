// llama.cpp: Llama 1 to 3.3 and everything that is built like them. In Hugging Face's form one flag puts biases on all
// four projections of attention, another on the three of the MLP; published Llamas have none.
#include "model/families/all.h"
#include "model/families/gguf_decoder.h"

namespace windlass {
namespace llama_family {

DecoderSpec read(const HfConfig& config) {
    DecoderSpec spec = read_decoder(config);
    for (LayerSpec& layer : spec.layers) {
        layer.qkv_bias = layer.output_bias = config.flag("attention_bias", false);
        layer.mlp_bias = config.flag("mlp_bias", false);
    }
    spec.set_windows(read_windows(config, spec.layers.size(), 0, 0));
    config.find_integer("pretraining_tp", 1, 1024);  // how a sum was cut during pretraining: the same mathematics
    return spec;
}

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    return build_decoder("llama", read(config), config, tensors);
}

GgufModel gguf(const HfConfig& config, const ModelSpec& model) {
    return gguf_decoder("llama", read(config), config, model, {kGgufMatrices, kGgufNeighbours, kGgufLlamaBiases},
                        {.factors = true});
}

}  // namespace llama_family

const Family kLlama = {"llama", llama_family::build, llama_family::gguf};

}  // namespace windlass
