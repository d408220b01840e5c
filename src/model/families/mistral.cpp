// mistral.cpp: Mistral 7B, Nemo, Small: Llama's block, no biases, optionally a sliding window. The first Mistral 7B has
// one of 4096 tokens, later models write null.
#include "model/families/all.h"
#include "model/families/decoder.h"

namespace windlass {
namespace {

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    DecoderSpec spec = read_decoder(config);
    spec.set_windows(read_windows(config, spec.layers.size(), read_sliding_window(config, 4096), 0));
    return build_decoder("mistral", spec, config, tensors);
}

}  // namespace

const Family kMistral = {"mistral", build};

}  // namespace windlass
