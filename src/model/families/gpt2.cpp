// gpt2.cpp: GPT-2: LayerNorm before, learned positions, q, k and v in one matrix, matrices stored [in, out].
#include "model/families/all.h"
#include "model/families/gguf_decoder.h"

namespace windlass {
namespace gpt2_family {

struct Gpt2Spec {
    int64_t vocab = 0, hidden = 0, inner = 0, layers = 0, heads = 0, positions = 0;
    double norm_eps = 1e-5;
    bool scale_scores = true;     // by 1 / sqrt(head size)
    bool scale_by_layer = false;  // and by 1 / (layer + 1)
    bool tied = true;
    Activation activation;
};

Gpt2Spec read(const HfConfig& config) {
    Gpt2Spec spec;
    spec.vocab = config.integer("vocab_size", 1, kVocabMax);
    spec.hidden = config.integer({"n_embd", "hidden_size"}, 1, kHiddenMax);
    spec.layers = config.integer({"n_layer", "num_hidden_layers"}, 1, kLayersMax);
    spec.heads = config.integer({"n_head", "num_attention_heads"}, 1, kHeadsMax);
    spec.positions = config.integer({"n_positions", "max_position_embeddings"}, 1, kPositionsMax);
    spec.inner = config.find_integer("n_inner", 1, kInnerMax).value_or(4 * spec.hidden);
    spec.norm_eps = config.find_number("layer_norm_epsilon", 0.0, 1.0).value_or(1e-5);
    spec.scale_scores = config.flag("scale_attn_weights", true);
    spec.scale_by_layer = config.flag("scale_attn_by_inverse_layer_idx", false);
    config.flag("reorder_and_upcast_attn", false);  // where fp16 is widened: scores are fp32 here in any case
    spec.tied = config.flag("tie_word_embeddings", true);
    spec.activation = read_activation(config, "activation_function", "gelu_new");
    require_divisible_heads(config, spec.hidden, spec.heads);
    return spec;
}

double score_scale(const Gpt2Spec& spec, int64_t layer) {
    double scale = 1.0;
    if (spec.scale_scores) scale /= std::sqrt(static_cast<double>(spec.hidden / spec.heads));
    if (spec.scale_by_layer) scale /= static_cast<double>(layer + 1);
    return scale;
}

int write_layer(BlockWriter& block, const Gpt2Spec& spec, int64_t layer) {
    const int64_t C = spec.hidden, F = spec.inner;
    const auto conv1d = [&](const char* module, int in, int64_t in_cols, int64_t out_cols) {
        return block.linear(module, in, {.in = in_cols, .out = out_cols, .bias = true, .in_out = true});
    };
    const int x = block.input(C);
    const int n1 = block.layer_norm("ln_1", x, C, spec.norm_eps);
    const int qkv = conv1d("attn.c_attn", n1, C, 3 * C);
    const AttentionAttrs attrs{
        .heads = spec.heads, .key_heads = spec.heads, .head_size = C / spec.heads, .scale = score_scale(spec, layer)};
    const int a = block.apply(kAttention, "attn.attention", {qkv}, attrs);
    const int h = block.apply(kAdd, "attn.residual", {x, conv1d("attn.c_proj", a, C, C)});
    const int n2 = block.layer_norm("ln_2", h, C, spec.norm_eps);
    const int inner = block.activation("mlp.act", conv1d("mlp.c_fc", n2, C, F), spec.activation);
    return block.apply(kAdd, "mlp.residual", {h, conv1d("mlp.c_proj", inner, F, C)});
}

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    static constexpr std::string_view kPrefixes[] = {"transformer.", ""};  // with a head, and a bare decoder's
    const Gpt2Spec spec = read(config);
    ModelAssembly model("gpt2", {spec.vocab, spec.hidden, spec.positions}, config, tensors);
    model.ignore(".attn.bias");  // the causal mask, as a buffer
    model.ignore(".attn.masked_bias");
    const std::string prefix = model.find_prefix(kPrefixes, "h.0.ln_1.weight");
    const TableNames names = model.name_tables(prefix + "wte.weight", "lm_head.weight", spec.tied);

    BlockWriter embedding("embedding", prefix);
    const int token = embedding.embedding("wte", vocab_table(names.embedding, spec.vocab, spec.hidden));
    const int position = embedding.embedding("wpe", position_table(prefix + "wpe.weight", spec.positions, spec.hidden),
                                             {.index = EmbeddingAttrs::Index::position});
    const int x = embedding.apply(kAdd, "positions", {token, position});
    model.add_block(std::move(embedding), x);
    for (int64_t i = 0; i < spec.layers; ++i) {
        BlockWriter layer(fmt::format("layers.{}", i), fmt::format("{}h.{}.", prefix, i));
        const int y = write_layer(layer, spec, i);
        model.add_block(std::move(layer), y);
    }
    model.add_head(prefix, vocab_table(names.head, spec.vocab, spec.hidden), [&](BlockWriter& head) {
        return head.layer_norm("ln_f", head.input(spec.hidden), spec.hidden, spec.norm_eps);
    });
    return model.finish();
}

constexpr GgufName kGgufLayer[] = {
    {"ln_1.weight", "attn_norm.weight"},
    {"ln_1.bias", "attn_norm.bias"},
    {"attn.c_attn.weight", "attn_qkv.weight", GgufChange::transposed},
    {"attn.c_attn.bias", "attn_qkv.bias"},
    {"attn.c_proj.weight", "attn_output.weight", GgufChange::transposed},
    {"attn.c_proj.bias", "attn_output.bias"},
    {"ln_2.weight", "ffn_norm.weight"},
    {"ln_2.bias", "ffn_norm.bias"},
    {"mlp.c_fc.weight", "ffn_up.weight", GgufChange::transposed},
    {"mlp.c_fc.bias", "ffn_up.bias"},
    {"mlp.c_proj.weight", "ffn_down.weight", GgufChange::transposed},
    {"mlp.c_proj.bias", "ffn_down.bias"},
};
constexpr GgufName kGgufModel[] = {
    {"wte.weight", "token_embd.weight"},
    {.from = "wpe.weight", .to = "position_embd.weight", .keeps_f32 = true},
    {"ln_f.weight", "output_norm.weight"},
    {"ln_f.bias", "output_norm.bias"},
};

GgufModel gguf(const HfConfig& config, const ModelSpec& model) {
    const Gpt2Spec spec = read(config);
    const auto refuse = [&](const char* what) {
        throw UserError(ExitCode::model, config.where(), "{}: llama.cpp computes GPT-2 without that", what);
    };
    if (!spec.scale_scores) refuse("\"scale_attn_weights\" is false");
    if (spec.scale_by_layer) refuse("\"scale_attn_by_inverse_layer_idx\" is true");
    if (spec.activation != Activation::gelu_tanh) refuse("\"activation_function\" is not gelu_new");
    const auto size = [](const char* key, int64_t value) {
        return GgufField{fmt::format("gpt2.{}", key), static_cast<uint32_t>(value)};
    };
    return {.architecture = "gpt2",
            .fields = {size("context_length", spec.positions),
                       size("embedding_length", spec.hidden),
                       size("block_count", spec.layers),
                       size("feed_forward_length", spec.inner),
                       size("attention.head_count", spec.heads),
                       {"gpt2.attention.layer_norm_epsilon", static_cast<float>(spec.norm_eps)}},
            .tensors = gguf_tensors(model, {.layers = "h.", .layer = kGgufLayer, .model = kGgufModel}, spec.heads,
                                    spec.heads)};
}

}  // namespace gpt2_family

const Family kGpt2 = {"gpt2", gpt2_family::build, gpt2_family::gguf};

}  // namespace windlass
