#include "model/families/gemma.h"

#include <cmath>

namespace windlass {

DecoderSpec read_gemma(const HfConfig& config, DecoderDefaults defaults) {
    defaults.tied = true;
    defaults.gate = SwigluAttrs::Kind::gelu_tanh;
    DecoderSpec spec = read_decoder(config, defaults);
    if (config.flag("use_bidirectional_attention", false))
        throw UserError(ExitCode::model, config.where(),
                        "\"use_bidirectional_attention\" is true: only attention to earlier tokens is implemented");
    spec.embedding_scale = {.factor = std::sqrt(static_cast<double>(spec.hidden)), .rounds_factor = true};
    spec.unit_offset = true;
    const bool bias = config.flag("attention_bias", false);
    const double scores = config.find_number("query_pre_attn_scalar", 1e-6, 1e9).value_or(256);
    for (LayerSpec& layer : spec.layers) {
        layer.unit_offset = true;
        layer.norms = NormOrder::around;
        layer.score_scale = 1.0 / std::sqrt(scores);
        layer.qkv_bias = layer.output_bias = bias;
    }
    return spec;
}

std::vector<int64_t> read_gemma_windows(const HfConfig& config, size_t layers, int64_t pattern) {
    const int64_t window = read_sliding_window(config, 4096);
    if (config.has("layer_types")) return read_windows(config, layers, window, 0);
    if (window == 0)
        throw UserError(ExitCode::model, config.where(), "\"sliding_window\" is null, but there are layers that slide");
    std::vector<int64_t> windows(layers);
    for (size_t i = 0; i < layers; ++i) windows[i] = (static_cast<int64_t>(i) + 1) % pattern != 0 ? window : 0;
    return windows;
}

double read_softcap(const HfConfig& config, const char* key, double fallback) {
    return config.find_number(key, 1e-3, 1e9).value_or(config.mentions(key) ? 0.0 : fallback);
}

DecoderSpec read_gemma3(const HfConfig& config) {
    // Layers with a window have a rope of their own; rope_scaling is about the others.
    static constexpr RopeBase kRopes[] = {{.layer_type = "full_attention", .theta = 1e6},
                                          {.layer_type = "sliding_attention", .key = "rope_local_base_freq"}};
    constexpr RopeRules kRules = {.bases = kRopes};
    DecoderSpec spec = read_gemma(config, {.vocab = 262'208,
                                           .hidden = 2304,
                                           .inner = 9216,
                                           .layers = 26,
                                           .positions = 131'072,
                                           .heads = 8,
                                           .key_heads = 4,
                                           .head_size = 256,
                                           .rope = kRules});
    // Newer files write next to the layers' types what made them.
    config.find_integer("_sliding_window_pattern", 1, kLayersMax);
    const int64_t pattern = config.find_integer("sliding_window_pattern", 1, kLayersMax).value_or(6);
    spec.set_windows(read_gemma_windows(config, spec.layers.size(), pattern));
    const std::shared_ptr<const RopeTable> local = read_rope_table(config, spec.layers[0].head_size, kRules, 1);
    for (LayerSpec& layer : spec.layers) {
        layer.qk_norm = QkNorm::per_head;
        if (layer.window > 0) layer.rope = local;
    }
    // transformers' attention leaves this one out.
    if (read_softcap(config, "attn_logit_softcapping", 0) > 0)
        throw UserError(ExitCode::model, config.where(), "\"attn_logit_softcapping\" is not null: Gemma 3 has none");
    spec.head.softcap = read_softcap(config, "final_logit_softcapping", 0);
    return spec;
}

GgufModel gguf_gemma(std::string architecture, const DecoderSpec& spec, const HfConfig& config, const ModelSpec& model,
                     const GgufRope& rope, int64_t layers_of_largest) {
    const LayerSpec& first = spec.layers.front();
    const bool is_largest = std::ssize(spec.layers) == layers_of_largest;
    const int64_t channels = is_largest ? spec.hidden / first.heads : first.head_size;
    const double scale = 1.0 / std::sqrt(static_cast<double>(channels));
    if (static_cast<float>(first.score_scale) != static_cast<float>(scale))
        refuse_gguf(config.where(),
                    fmt::format("\"query_pre_attn_scalar\" is {}: llama.cpp takes {} in this model, and reads none",
                                1.0 / (first.score_scale * first.score_scale), channels));
    return gguf_decoder(std::move(architecture), spec, config, model, {kGgufMatrices, kGgufNormsBehind, kGgufQkNorms},
                        rope);
}

GgufModel gguf_gemma3(const HfConfig& config, const ModelSpec& model) {
    constexpr int64_t kWindowStep = 6, kLayersOf27b = 62;
    const DecoderSpec spec = read_gemma3(config);
    GgufModel out = gguf_gemma("gemma3", spec, config, model, {.local = true}, kLayersOf27b);
    add_gguf_windows(spec, kWindowStep, config.where(), out);
    if (spec.head.softcap > 0) add_gguf_number("final_logit_softcapping", spec.head.softcap, out);
    return out;
}

}  // namespace windlass
