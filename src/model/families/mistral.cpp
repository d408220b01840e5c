// mistral.cpp: Mistral 7B, Nemo, Small: Llama's block, no biases, optionally a sliding window. The first Mistral 7B has
// one of 4096 tokens, later models write null.
#include "model/families/all.h"
#include "model/families/gguf_decoder.h"

namespace windlass {
namespace mistral_family {

DecoderSpec read(const HfConfig& config) {
    DecoderSpec spec = read_decoder(config);
    spec.set_windows(read_windows(config, spec.layers.size(), read_sliding_window(config, 4096), 0));
    return spec;
}

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    return build_decoder("mistral", read(config), config, tensors);
}

GgufModel gguf(const HfConfig& config, const ModelSpec& model) {
    const DecoderSpec spec = read(config);
    GgufModel out = gguf_decoder("llama", spec, config, model, {kGgufMatrices, kGgufNeighbours}, {.factors = true});
    note_windows(spec, out);
    return out;
}

}  // namespace mistral_family

const Family kMistral = {"mistral", mistral_family::build, mistral_family::gguf};

}  // namespace windlass
