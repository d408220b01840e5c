// gemma2.cpp: Gemma 2: every second layer slides, scores and logits are capped softly.
#include "model/families/all.h"
#include "model/families/gemma.h"

namespace windlass {
namespace gemma2_family {

DecoderSpec read(const HfConfig& config) {
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
    return spec;
}

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    return build_decoder("gemma2", read(config), config, tensors);
}

GgufModel gguf(const HfConfig& config, const ModelSpec& model) {
    constexpr int64_t kWindowStep = 2, kLayersOf27b = 46;
    const DecoderSpec spec = read(config);
    const double softcap = spec.layers.front().score_softcap;
    if (softcap == 0 || spec.head.softcap == 0 || !spec.tied)
        refuse_gguf(
            config.where(),
            fmt::format("{}: llama.cpp caps scores and logits of each Gemma 2, and ties its tables",
                        !spec.tied ? "\"tie_word_embeddings\" is false"
                                   : fmt::format("\"{}_logit_softcapping\" is null", softcap == 0 ? "attn" : "final")));
    GgufModel out = gguf_gemma("gemma2", spec, config, model, {}, kLayersOf27b);
    add_gguf_windows(spec, kWindowStep, config.where(), out);
    add_gguf_number("attn_logit_softcapping", softcap, out);
    add_gguf_number("final_logit_softcapping", spec.head.softcap, out);
    return out;
}

}  // namespace gemma2_family

const Family kGemma2 = {"gemma2", gemma2_family::build, gemma2_family::gguf};

}  // namespace windlass
