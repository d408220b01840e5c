// opt.cpp: OPT: LayerNorm before or after (350m), learned positions after two unused rows, biases, relu; 350m keeps
// narrower tables and projects to and from them.
#include "model/families/all.h"
#include "model/families/assembly.h"

namespace windlass {
namespace opt_family {

constexpr int64_t kPositionOffset = 2;
constexpr double kNormEps = 1e-5;  // not in the configuration

struct OptSpec {
    int64_t vocab = 0, hidden = 0, inner = 0, layers = 0, heads = 0, positions = 0;
    int64_t table_cols = 0;   // of the tables; when not `hidden`, project_in and project_out are between
    bool norm_before = true;  // else after each residual sum
    bool final_norm = true;
    bool bias = true;
    bool tied = true;
    Activation activation;
};

OptSpec read(const HfConfig& config) {
    OptSpec spec;
    spec.vocab = config.integer("vocab_size", 1, kVocabMax);
    spec.hidden = config.integer("hidden_size", 1, kHiddenMax);
    spec.inner = config.integer("ffn_dim", 1, kInnerMax);
    spec.layers = config.integer("num_hidden_layers", 1, kLayersMax);
    spec.heads = config.integer("num_attention_heads", 1, kHeadsMax);
    spec.positions = config.integer("max_position_embeddings", 1, kPositionsMax);
    spec.table_cols = config.find_integer("word_embed_proj_dim", 1, kHiddenMax).value_or(spec.hidden);
    spec.norm_before = config.flag("do_layer_norm_before", true);
    spec.final_norm = !config.flag("_remove_final_layer_norm", false) && spec.norm_before;
    spec.bias = config.flag("enable_bias", true);
    spec.tied = config.flag("tie_word_embeddings", true);
    spec.activation = read_activation(config, "activation_function", "relu");
    config.find_number("init_std", 0.0, 1e6);  // how weights were drawn once
    require_divisible_heads(config, spec.hidden, spec.heads);
    if (!config.flag("layer_norm_elementwise_affine", true))
        throw UserError(ExitCode::model, config.where(),
                        "\"layer_norm_elementwise_affine\" is false: norms without weights are not implemented");
    return spec;
}

int attention(BlockWriter& block, const OptSpec& spec, int in) {
    const int64_t C = spec.hidden;
    const LinearSize square{.in = C, .out = C, .bias = spec.bias};
    const int q = block.linear("self_attn.q_proj", in, square);
    const int k = block.linear("self_attn.k_proj", in, square);
    const int v = block.linear("self_attn.v_proj", in, square);
    const int64_t head_size = C / spec.heads;
    const AttentionAttrs attrs{.heads = spec.heads,
                               .key_heads = spec.heads,
                               .head_size = head_size,
                               .scale = 1.0 / std::sqrt(static_cast<double>(head_size))};
    const int a = block.apply(kAttention, "self_attn.attention", {q, k, v}, attrs);
    return block.linear("self_attn.out_proj", a, square);
}

int mlp(BlockWriter& block, const OptSpec& spec, int in) {
    const int wide = block.linear("fc1", in, {.in = spec.hidden, .out = spec.inner, .bias = spec.bias});
    const int active = block.activation("act", wide, spec.activation);
    return block.linear("fc2", active, {.in = spec.inner, .out = spec.hidden, .bias = spec.bias});
}

int write_layer(BlockWriter& block, const OptSpec& spec) {
    const int64_t C = spec.hidden;
    const int x = block.input(C);
    if (spec.norm_before) {
        const int n1 = block.layer_norm("self_attn_layer_norm", x, C, kNormEps);
        const int h = block.apply(kAdd, "self_attn.residual", {x, attention(block, spec, n1)});
        const int n2 = block.layer_norm("final_layer_norm", h, C, kNormEps);
        return block.apply(kAdd, "mlp.residual", {h, mlp(block, spec, n2)});
    }
    const int h = block.apply(kAdd, "self_attn.residual", {x, attention(block, spec, x)});
    const int n1 = block.layer_norm("self_attn_layer_norm", h, C, kNormEps);
    const int y = block.apply(kAdd, "mlp.residual", {n1, mlp(block, spec, n1)});
    return block.layer_norm("final_layer_norm", y, C, kNormEps);
}

int write_embedding(BlockWriter& block, const OptSpec& spec, const std::string& table, const std::string& prefix) {
    int x = block.embedding("embed_tokens", vocab_table(table, spec.vocab, spec.table_cols));
    if (spec.table_cols != spec.hidden) x = block.linear("project_in", x, {.in = spec.table_cols, .out = spec.hidden});
    const WantedParam positions =
        position_table(prefix + "embed_positions.weight", spec.positions + kPositionOffset, spec.hidden);
    const int position = block.embedding("embed_positions", positions,
                                         {.index = EmbeddingAttrs::Index::position, .offset = kPositionOffset});
    return block.apply(kAdd, "positions", {x, position});
}

int write_head(BlockWriter& block, const OptSpec& spec) {
    int x = block.input(spec.hidden);
    if (spec.final_norm) x = block.layer_norm("final_layer_norm", x, spec.hidden, kNormEps);
    if (spec.table_cols == spec.hidden) return x;
    return block.linear("project_out", x, {.in = spec.hidden, .out = spec.table_cols});
}

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    static constexpr std::string_view kPrefixes[] = {"model.decoder.", "decoder."};  // with a head, and without
    const OptSpec spec = read(config);
    ModelAssembly model("opt", {spec.vocab, spec.hidden, spec.positions}, config, tensors);
    const std::string prefix = model.find_prefix(kPrefixes, "layers.0.fc1.weight");
    const TableNames names = model.name_tables(prefix + "embed_tokens.weight", "lm_head.weight", spec.tied);

    BlockWriter embedding("embedding", prefix);
    const int x = write_embedding(embedding, spec, names.embedding, prefix);
    model.add_block(std::move(embedding), x);
    for (int64_t i = 0; i < spec.layers; ++i) {
        BlockWriter layer(fmt::format("layers.{}", i), fmt::format("{}layers.{}.", prefix, i));
        const int y = write_layer(layer, spec);
        model.add_block(std::move(layer), y);
    }
    model.add_head(prefix, vocab_table(names.head, spec.vocab, spec.table_cols),
                   [&](BlockWriter& head) { return write_head(head, spec); });
    return model.finish();
}

}  // namespace opt_family

const Family kOpt = {"opt", opt_family::build};

}  // namespace windlass
