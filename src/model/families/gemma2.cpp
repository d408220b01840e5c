// gemma2.cpp: Gemma 2: every second layer slides, scores and logits are capped softly.
#include "model/families/all.h"
#include "model/families/gemma.h"

namespace windlass {
namespace {

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    DecoderSpec spec = read_gemma(config, {.vocab = 256'000,
                                           .hidden = 2304,
                                           .inner = 9216,
                                           .layers = 26,
                                           .positions = 8192,
                                           .heads = 8,
                                           .key_heads = 4,
                                           .head_size = 256});
    spec.set_windows(read_gemma_windows(config, spec.layers.size(), 2));
    const double softcap = read_softcap(config, "attn_logit_softcapping", 50);
    for (LayerSpec& layer : spec.layers) layer.score_softcap = softcap;
    spec.head.softcap = read_softcap(config, "final_logit_softcapping", 30);
    return build_decoder("gemma2", spec, config, tensors);
}

}  // namespace

const Family kGemma2 = {"gemma2", build};

}  // namespace windlass
