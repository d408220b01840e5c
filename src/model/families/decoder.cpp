#include "model/families/decoder.h"

#include <cmath>
#include <numbers>

namespace windlass {
namespace {

void require_silu(const HfConfig& config) {
    const std::string name = config.find_text({"hidden_act", "hidden_activation"}).value_or("silu");
    if (name != "silu" && name != "swish")
        throw UserError(ExitCode::model, config.where(), "\"hidden_act\" is \"{}\", implemented is silu", name);
}

void read_heads(const HfConfig& config, DecoderSpec& spec) {
    spec.heads = config.integer("num_attention_heads", 1, kHeadsMax);
    spec.key_heads = config.find_integer("num_key_value_heads", 1, kHeadsMax).value_or(spec.heads);
    if (spec.heads % spec.key_heads != 0)
        throw UserError(ExitCode::model, config.where(),
                        "\"num_attention_heads\" {} is not a multiple of "
                        "\"num_key_value_heads\" {}",
                        spec.heads, spec.key_heads);
    const std::optional<int64_t> head_size = config.find_integer("head_dim", 2, kHeadSizeMax);
    if (!head_size && spec.hidden % spec.heads != 0)
        throw UserError(ExitCode::model, config.where(),
                        "\"hidden_size\" {} is not a multiple of "
                        "\"num_attention_heads\" {}, and there is no \"head_dim\"",
                        spec.hidden, spec.heads);
    spec.head_size = head_size.value_or(spec.hidden / spec.heads);
    if (spec.head_size % 2 != 0 || spec.head_size > kHeadSizeMax)
        throw UserError(ExitCode::model, config.where(), "heads have {} channels, expected an even number up to {}",
                        spec.head_size, kHeadSizeMax);
}

int attention_half(BlockWriter& block, const DecoderSpec& spec, int64_t window, int x) {
    const int64_t q_cols = spec.heads * spec.head_size, kv_cols = spec.key_heads * spec.head_size;
    const int h = block.rms_norm("input_layernorm", x, spec.hidden, {.eps = spec.norm_eps});
    int q = block.linear("self_attn.q_proj", h, {.in = spec.hidden, .out = q_cols, .bias = spec.qkv_bias});
    int k = block.linear("self_attn.k_proj", h, {.in = spec.hidden, .out = kv_cols, .bias = spec.qkv_bias});
    const int v = block.linear("self_attn.v_proj", h, {.in = spec.hidden, .out = kv_cols, .bias = spec.qkv_bias});
    if (spec.qk_norm) {
        q = block.rms_norm("self_attn.q_norm", q, spec.head_size, {.eps = spec.norm_eps, .groups = spec.heads});
        k = block.rms_norm("self_attn.k_norm", k, spec.head_size, {.eps = spec.norm_eps, .groups = spec.key_heads});
    }
    q = block.apply(kRope, "self_attn.q_rope", {q}, RopeAttrs{spec.heads, spec.frequencies});
    k = block.apply(kRope, "self_attn.k_rope", {k}, RopeAttrs{spec.key_heads, spec.frequencies});
    const AttentionAttrs attrs{.heads = spec.heads,
                               .key_heads = spec.key_heads,
                               .head_size = spec.head_size,
                               .scale = 1.0 / std::sqrt(static_cast<double>(spec.head_size)),
                               .window = window};
    const int a = block.apply(kAttention, "self_attn.attention", {q, k, v}, attrs);
    const int o = block.linear("self_attn.o_proj", a, {.in = q_cols, .out = spec.hidden, .bias = spec.output_bias});
    return block.apply(kAdd, "self_attn.residual", {x, o});
}

int mlp_half(BlockWriter& block, const DecoderSpec& spec, int x) {
    const LinearSize widen{.in = spec.hidden, .out = spec.inner, .bias = spec.mlp_bias};
    const int h = block.rms_norm("post_attention_layernorm", x, spec.hidden, {.eps = spec.norm_eps});
    const int gate = block.linear("mlp.gate_proj", h, widen);
    const int up = block.linear("mlp.up_proj", h, widen);
    const int s = block.apply(kSwiglu, "mlp.act", {gate, up});
    const int down = block.linear("mlp.down_proj", s, {.in = spec.inner, .out = spec.hidden, .bias = spec.mlp_bias});
    return block.apply(kAdd, "mlp.residual", {x, down});
}

// llama3: long wavelengths are stretched by `factor`, short ones kept, those between blended.
double llama3_frequency(const RopeSpec& rope, double frequency) {
    const double wavelength = 2.0 * std::numbers::pi / frequency;
    const double length = static_cast<double>(rope.original_length);
    if (wavelength > length / rope.low_freq_factor) return frequency / rope.factor;
    if (wavelength < length / rope.high_freq_factor) return frequency;
    const double keep = (length / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
    return (1.0 - keep) * frequency / rope.factor + keep * frequency;
}

}  // namespace

DecoderSpec read_decoder(const HfConfig& config) {
    DecoderSpec spec;
    spec.vocab = config.integer("vocab_size", 1, kVocabMax);
    spec.hidden = config.integer("hidden_size", 1, kHiddenMax);
    spec.inner = config.integer("intermediate_size", 1, kInnerMax);
    spec.layers = config.integer("num_hidden_layers", 1, kLayersMax);
    spec.context_length = config.integer("max_position_embeddings", 1, kPositionsMax);
    spec.norm_eps = config.find_number("rms_norm_eps", 0.0, 1.0).value_or(1e-6);
    spec.tied = config.flag("tie_word_embeddings", false);
    require_silu(config);
    read_heads(config, spec);
    spec.frequencies = rope_frequencies(read_rope(config, 10000.0), spec.head_size);
    return spec;
}

std::vector<int64_t> read_windows(const HfConfig& config, int64_t layers, int64_t window, int64_t first_sliding) {
    std::vector<int64_t> windows(static_cast<size_t>(layers));
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
    const bool mentioned = config.to_text().find("\"sliding_window\"") != std::string::npos;
    return config.find_integer("sliding_window", 1, kPositionsMax).value_or(mentioned ? 0 : fallback);
}

std::vector<int64_t> read_qwen_windows(const HfConfig& config, int64_t layers) {
    const bool on = config.flag("use_sliding_window", false);
    const int64_t window = read_sliding_window(config, 4096);
    const int64_t first_sliding = config.find_integer("max_window_layers", 0, kLayersMax).value_or(28);
    return read_windows(config, layers, on ? window : 0, first_sliding);
}

std::vector<double> rope_frequencies(const RopeSpec& rope, int64_t head_size) {
    std::vector<double> frequencies;
    for (int64_t i = 0; i < head_size / 2; ++i) {
        double frequency = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_size));
        if (rope.kind == RopeKind::linear) frequency /= rope.factor;
        if (rope.kind == RopeKind::llama3) frequency = llama3_frequency(rope, frequency);
        frequencies.push_back(frequency);
    }
    return frequencies;
}

ModelSpec build_decoder(std::string family, const DecoderSpec& spec, const HfConfig& config,
                        std::span<const TensorPlace> tensors) {
    static constexpr std::string_view kPrefixes[] = {"model.", ""};  // with a head, and a bare decoder's
    ModelAssembly model(std::move(family), {spec.vocab, spec.hidden, spec.context_length}, config, tensors);
    model.ignore(".rotary_emb.inv_freq");
    const std::string prefix = model.find_prefix(kPrefixes, "layers.0.input_layernorm.weight");
    const TableNames names = model.name_tables(prefix + "embed_tokens.weight", "lm_head.weight", spec.tied);

    BlockWriter embedding("embedding", prefix);
    const int x = embedding.embedding("embed_tokens", vocab_table(names.embedding, spec.vocab, spec.hidden));
    model.add_block(std::move(embedding), x);
    for (int64_t i = 0; i < spec.layers; ++i) {
        BlockWriter layer(fmt::format("layers.{}", i), fmt::format("{}layers.{}.", prefix, i));
        const int h = attention_half(layer, spec, spec.windows[static_cast<size_t>(i)], layer.input(spec.hidden));
        const int y = mlp_half(layer, spec, h);
        model.add_block(std::move(layer), y);
    }
    model.add_head(prefix, vocab_table(names.head, spec.vocab, spec.hidden), [&](BlockWriter& head) {
        return head.rms_norm("norm", head.input(spec.hidden), spec.hidden, {.eps = spec.norm_eps});
    });
    return model.finish();
}

}  // namespace windlass
