#include "model/families/decoder.h"
#include "base/printable.h"

#include <cmath>

namespace windlass {
namespace {

// transformers' Gemma has a key of its own for it.
void require_gate(const HfConfig& config, SwigluAttrs::Kind gate) {
    const bool is_silu = gate == SwigluAttrs::Kind::silu;
    const char* const key = is_silu ? "hidden_act" : "hidden_activation";
    const char* const wanted = is_silu ? "silu" : "gelu_pytorch_tanh";
    const KeyNames keys = is_silu ? KeyNames{"hidden_act", "hidden_activation"} : KeyNames(key);
    const std::string name = config.find_text(keys).value_or(wanted);
    if (name != wanted && !(is_silu && name == "swish"))
        throw UserError(ExitCode::model, config.where(), "\"{}\" is \"{}\", implemented is {}", key, excerpt(name),
                        wanted);
}

int64_t read_size(const HfConfig& config, const char* key, int64_t max, int64_t fallback) {
    return fallback == 0 ? config.integer(key, 1, max) : config.find_integer(key, 1, max).value_or(fallback);
}

void read_heads(const HfConfig& config, const DecoderDefaults& defaults, LayerSpec& layer) {
    layer.heads = read_size(config, "num_attention_heads", kHeadsMax, defaults.heads);
    const int64_t key_heads = defaults.key_heads == 0 ? layer.heads : defaults.key_heads;
    layer.key_heads = config.find_integer("num_key_value_heads", 1, kHeadsMax).value_or(key_heads);
    if (layer.heads % layer.key_heads != 0)
        throw UserError(ExitCode::model, config.where(),
                        "\"num_attention_heads\" {} is not a multiple of "
                        "\"num_key_value_heads\" {}",
                        layer.heads, layer.key_heads);
    std::optional<int64_t> head_size = config.find_integer("head_dim", 2, kHeadSizeMax);
    if (!head_size && defaults.head_size > 0) head_size = defaults.head_size;
    if (!head_size && layer.hidden % layer.heads != 0)
        throw UserError(ExitCode::model, config.where(),
                        "\"hidden_size\" {} is not a multiple of "
                        "\"num_attention_heads\" {}, and there is no \"head_dim\"",
                        layer.hidden, layer.heads);
    layer.head_size = head_size.value_or(layer.hidden / layer.heads);
    if (layer.head_size % 2 != 0 || layer.head_size > kHeadSizeMax)
        throw UserError(ExitCode::model, config.where(), "heads have {} channels, expected an even number up to {}",
                        layer.head_size, kHeadSizeMax);
    layer.score_scale = 1.0 / std::sqrt(static_cast<double>(layer.head_size));
}

// The norms of a half of a layer, by their modules; null: none there.
struct HalfNorms {
    const char* before = nullptr;
    const char* after = nullptr;
};

HalfNorms attention_norms(NormOrder order) {
    switch (order) {
        case NormOrder::before:
            return {.before = "input_layernorm"};
        case NormOrder::after:
            return {.after = "post_attention_layernorm"};
        case NormOrder::around:
            return {"input_layernorm", "post_attention_layernorm"};
    }
    return {};
}

HalfNorms mlp_norms(NormOrder order) {
    switch (order) {
        case NormOrder::before:
            return {.before = "post_attention_layernorm"};
        case NormOrder::after:
            return {.after = "post_feedforward_layernorm"};
        case NormOrder::around:
            return {"pre_feedforward_layernorm", "post_feedforward_layernorm"};
    }
    return {};
}

// Writes one layer.
class LayerWriter {
  public:
    LayerWriter(BlockWriter& block, const LayerSpec& layer) : block_(block), layer_(layer) {}

    int write() {
        const int x = block_.input(layer_.hidden);
        const int h = half("self_attn", x, attention_norms(layer_.norms), &LayerWriter::attention);
        return half("mlp", h, mlp_norms(layer_.norms), &LayerWriter::mlp);
    }

  private:
    int half(const std::string& name, int x, HalfNorms norms, int (LayerWriter::*body)(int)) {
        int y = (this->*body)(norms.before == nullptr ? x : norm(norms.before, x, layer_.hidden));
        if (norms.after != nullptr) y = norm(norms.after, y, layer_.hidden);
        y = block_.scale(name + ".scale", y, {.factor = layer_.residual_scale});
        return block_.apply(kAdd, name + ".residual", {x, y});
    }

    int norm(const std::string& module, int x, int64_t size, int64_t groups = 1) {
        return block_.rms_norm(module, x, size,
                               {.eps = layer_.norm_eps, .groups = groups, .unit_offset = layer_.unit_offset});
    }

    int attention(int x) {
        const int a = block_.apply(kAttention, "self_attn.attention", layer_.fused ? fused_heads(x) : heads(x),
                                   AttentionAttrs{.heads = layer_.heads,
                                                  .key_heads = layer_.key_heads,
                                                  .head_size = layer_.head_size,
                                                  .scale = layer_.score_scale,
                                                  .window = layer_.window,
                                                  .softcap = layer_.score_softcap});
        return block_.linear("self_attn.o_proj", a,
                             {.in = query_cols(), .out = layer_.hidden, .bias = layer_.output_bias});
    }

    int64_t query_cols() const { return layer_.heads * layer_.head_size; }
    int64_t key_cols() const { return layer_.key_heads * layer_.head_size; }

    std::vector<int> heads(int x) {
        int q = project("self_attn.q_proj", x, query_cols());
        int k = project("self_attn.k_proj", x, key_cols());
        const int v = project("self_attn.v_proj", x, key_cols());
        if (layer_.qk_norm != QkNorm::none) {
            const bool whole = layer_.qk_norm == QkNorm::whole;
            q = norm("self_attn.q_norm", q, whole ? query_cols() : layer_.head_size, whole ? 1 : layer_.heads);
            k = norm("self_attn.k_norm", k, whole ? key_cols() : layer_.head_size, whole ? 1 : layer_.key_heads);
        }
        return {turn("self_attn.q_rope", q, layer_.heads, 0), turn("self_attn.k_rope", k, layer_.key_heads, 0), v};
    }

    std::vector<int> fused_heads(int x) {
        WINDLASS_CHECK(layer_.qk_norm == QkNorm::none, "norms of fused queries and keys");
        const int qkv = project("self_attn.qkv_proj", x, query_cols() + 2 * key_cols());
        return {turn("self_attn.rope", qkv, layer_.heads + layer_.key_heads, key_cols())};
    }

    int project(const std::string& module, int x, int64_t cols) {
        return block_.linear(module, x, {.in = layer_.hidden, .out = cols, .bias = layer_.qkv_bias});
    }

    // Columns after the heads are passed on.
    int turn(std::string value, int x, int64_t heads, int64_t passed) {
        if (layer_.rope == nullptr) return x;
        const RopeTable& rope = *layer_.rope;
        RopeAttrs attrs{.heads = heads,
                        .frequencies = rope.frequencies,
                        .still = layer_.head_size - 2 * std::ssize(rope.frequencies),
                        .passed = passed,
                        .scale = rope.scale,
                        .long_frequencies = rope.long_frequencies,
                        .short_length = rope.short_length};
        return block_.apply(kRope, std::move(value), {x}, std::move(attrs));
    }

    int mlp(int x) {
        const int s = layer_.fused ? fused_gate(x) : gate(x);
        return block_.linear("mlp.down_proj", s, {.in = layer_.inner, .out = layer_.hidden, .bias = layer_.mlp_bias});
    }

    int gate(int x) {
        const LinearSize widen{.in = layer_.hidden, .out = layer_.inner, .bias = layer_.mlp_bias};
        const int gate = block_.linear("mlp.gate_proj", x, widen);
        const int up = block_.linear("mlp.up_proj", x, widen);
        return block_.apply(kSwiglu, "mlp.act", {gate, up}, SwigluAttrs{.kind = layer_.gate});
    }

    int fused_gate(int x) {
        const LinearSize widen{.in = layer_.hidden, .out = 2 * layer_.inner, .bias = layer_.mlp_bias};
        return block_.apply(kSwiglu, "mlp.act", {block_.linear("mlp.gate_up_proj", x, widen)},
                            SwigluAttrs{.kind = layer_.gate, .packed = true});
    }

    BlockWriter& block_;
    const LayerSpec& layer_;
};

}  // namespace

void DecoderSpec::set_windows(const std::vector<int64_t>& windows) {
    for (size_t i = 0; i < layers.size(); ++i) layers[i].window = windows[i];
}

DecoderSpec read_decoder(const HfConfig& config, const DecoderDefaults& defaults) {
    DecoderSpec spec;
    spec.vocab = read_size(config, "vocab_size", kVocabMax, defaults.vocab);
    spec.hidden = read_size(config, "hidden_size", kHiddenMax, defaults.hidden);
    spec.context_length = read_size(config, "max_position_embeddings", kPositionsMax, defaults.positions);
    spec.norm_eps = config.find_number("rms_norm_eps", 0.0, 1.0).value_or(defaults.norm_eps);
    spec.tied = config.flag("tie_word_embeddings", defaults.tied);
    LayerSpec layer{.hidden = spec.hidden, .norm_eps = spec.norm_eps};
    layer.inner = read_size(config, "intermediate_size", kInnerMax, defaults.inner);
    layer.gate = defaults.gate;
    require_gate(config, layer.gate);
    read_heads(config, defaults, layer);
    layer.rope = read_rope_table(config, layer.head_size, defaults.rope);
    const int64_t layers = read_size(config, "num_hidden_layers", kLayersMax, defaults.layers);
    spec.layers.assign(static_cast<size_t>(layers), layer);
    return spec;
}

std::vector<int64_t> read_windows(const HfConfig& config, size_t layers, int64_t window, int64_t first_sliding) {
    std::vector<int64_t> windows(layers);
    const std::optional<std::vector<std::string>> types = config.find_texts("layer_types");
    if (types && types->size() != windows.size())
        throw UserError(ExitCode::model, config.where(), "\"layer_types\" has {} entries for {} layers", types->size(),
                        layers);
    for (size_t i = 0; i < windows.size(); ++i) {
        if (!types) {
            windows[i] = static_cast<int64_t>(i) >= first_sliding ? window : 0;
        } else if ((*types)[i] == "sliding_attention" && window > 0) {
            windows[i] = window;
        } else if ((*types)[i] != "full_attention") {
            throw UserError(
                ExitCode::model, config.where(), "\"layer_types\" has \"{}\" for layer {}{}", (*types)[i], i,
                (*types)[i] == "sliding_attention" ? ", but no window is given or switched on" : ": not implemented");
        }
    }
    return windows;
}

int64_t read_sliding_window(const HfConfig& config, int64_t fallback) {
    const bool mentioned = config.mentions("sliding_window");
    return config.find_integer("sliding_window", 1, kPositionsMax).value_or(mentioned ? 0 : fallback);
}

std::vector<int64_t> read_qwen_windows(const HfConfig& config, size_t layers) {
    const bool on = config.flag("use_sliding_window", false);
    const int64_t window = read_sliding_window(config, 4096);
    const int64_t first_sliding = config.find_integer("max_window_layers", 0, kLayersMax).value_or(28);
    return read_windows(config, layers, on ? window : 0, first_sliding);
}

ModelSpec build_decoder(std::string family, const DecoderSpec& spec, const HfConfig& config,
                        std::span<const TensorPlace> tensors, const DecoderNames& names) {
    ModelAssembly model(std::move(family), {spec.vocab, spec.hidden, spec.context_length}, config, tensors);
    model.ignore(".rotary_emb.inv_freq");
    for (const std::string_view apart : names.apart) model.ignore_prefix(apart);
    const std::string prefix = model.find_prefix(names.prefixes, "layers.0.post_attention_layernorm.weight");
    const TableNames tables =
        model.name_tables(prefix + "embed_tokens.weight", model.find_first(names.heads), spec.tied);

    BlockWriter embedding("embedding", prefix);
    const int looked_up = embedding.embedding("embed_tokens", vocab_table(tables.embedding, spec.vocab, spec.hidden));
    const int x = embedding.scale("embed_scale", looked_up, spec.embedding_scale);
    model.add_block(std::move(embedding), x);
    for (size_t i = 0; i < spec.layers.size(); ++i) {
        BlockWriter layer(fmt::format("layers.{}", i), fmt::format("{}layers.{}.", prefix, i));
        const int y = LayerWriter(layer, spec.layers[i]).write();
        model.add_block(std::move(layer), y);
    }
    const RmsNormAttrs norm{.eps = spec.norm_eps, .unit_offset = spec.unit_offset};
    model.add_head(
        prefix, vocab_table(tables.head, spec.vocab, spec.hidden),
        [&](BlockWriter& head) { return head.rms_norm("norm", head.input(spec.hidden), spec.hidden, norm); },
        spec.head);
    return model.finish();
}

}  // namespace windlass
