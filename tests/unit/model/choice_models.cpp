#include "tests/unit/model/choice_models.h"

#include <cmath>

#include "model/families/assembly.h"

namespace windlass {
namespace {

constexpr int64_t kHidden = 24, kInner = 40, kHeads = 3, kKeyHeads = 1, kHeadSize = 8, kVocab = 50;
constexpr RmsNormAttrs kNorm{.eps = 1e-6};

int attention_half(BlockWriter& block, int x) {
    const int64_t kv_cols = kKeyHeads * kHeadSize;
    const int h = block.rms_norm("input_layernorm", x, kHidden, kNorm);
    int q = block.linear("q_proj", h, {.in = kHidden, .out = kHeads * kHeadSize});
    int k = block.linear("k_proj", h, {.in = kHidden, .out = kv_cols});
    const int v = block.linear("v_proj", h, {.in = kHidden, .out = kv_cols});
    const std::vector<double> frequencies{1.0, 0.3, 0.1, 0.03};
    q = block.apply(kRope, "q_rope", {q}, RopeAttrs{kHeads, frequencies});
    k = block.apply(kRope, "k_rope", {k}, RopeAttrs{kKeyHeads, frequencies});
    const AttentionAttrs attrs{
        .heads = kHeads, .key_heads = kKeyHeads, .head_size = kHeadSize, .scale = 0.4, .window = 7};
    const int a = block.apply(kAttention, "attention", {q, k, v}, attrs);
    const int o = block.linear("o_proj", a, {.in = kHeads * kHeadSize, .out = kHidden});
    return block.apply(kAdd, "attention_sum", {x, block.rms_norm("post_attention_layernorm", o, kHidden, kNorm)});
}

int mlp_half(BlockWriter& block, int x) {
    const int h = block.rms_norm("pre_feedforward_layernorm", x, kHidden, kNorm);
    const int gate = block.linear("gate_proj", h, {.in = kHidden, .out = kInner});
    const int up = block.linear("up_proj", h, {.in = kHidden, .out = kInner});
    const int act = block.apply(kSwiglu, "act", {gate, up}, SwigluAttrs{});
    const int down = block.linear("down_proj", act, {.in = kInner, .out = kHidden});
    return block.apply(kAdd, "mlp_sum", {x, block.rms_norm("post_feedforward_layernorm", down, kHidden, kNorm)});
}

}  // namespace

ModelSpec model_with_norms_around() {
    const HfConfig config = HfConfig::parse(R"({"model_type": "norms_around", "dtype": "float32"})", "config.json");
    ModelAssembly model("norms_around", {kVocab, kHidden, 64}, config, {});
    BlockWriter embedding("embedding", "");
    const int x = embedding.embedding("embed", vocab_table("embed.weight", kVocab, kHidden));
    model.add_block(std::move(embedding), x);
    for (int i = 0; i < 2; ++i) {
        BlockWriter layer(fmt::format("layers.{}", i), fmt::format("layers.{}.", i));
        const int h = attention_half(layer, layer.input(kHidden));
        const int y = mlp_half(layer, h);
        model.add_block(std::move(layer), y);
    }
    model.add_head("", vocab_table("lm_head.weight", kVocab, kHidden),
                   [](BlockWriter& head) { return head.rms_norm("norm", head.input(kHidden), kHidden, kNorm); });
    return model.finish();
}

ModelSpec choice_model(const std::string& name) {
    return name == "norms_around" ? model_with_norms_around() : build_text(golden_config(name));
}

ParamValues random_masters(const ModelSpec& model, uint64_t seed) {
    Random random(seed, RandomStream::init);
    ParamValues masters;
    for (const ParamSpec& param : model.params) {
        const bool is_matrix = param.shape.rank() == 2;
        const float spread = is_matrix ? 1.0f / std::sqrt(static_cast<float>(param.shape[1])) : 0.2f;
        std::vector<float>& values = masters.emplace_back(static_cast<size_t>(param.numel()));
        for (float& value : values) value = (is_matrix ? 0.0f : 0.8f) + spread * random.normal();
    }
    return masters;
}

TokenBatch random_batch(const ModelSpec& model, int64_t rows, int64_t sequence_length, uint64_t seed) {
    Random random(seed, RandomStream::test);
    std::vector<int64_t> tokens, targets;
    for (int64_t t = 0; t < rows * sequence_length; ++t) {
        tokens.push_back(static_cast<int64_t>(random.below(static_cast<uint64_t>(model.vocab))));
        const auto target = static_cast<int64_t>(random.below(static_cast<uint64_t>(model.vocab)));
        targets.push_back(random.below(5) == 0 ? kIgnored : target);
    }
    return TokenBatch::make(rows, tokens, targets, std::vector<int64_t>{0, sequence_length / 3, sequence_length});
}

std::vector<SaveChoice> choices_of(uint64_t recomputed, size_t count, Random& random) {
    constexpr SaveChoice kKept[] = {SaveChoice::keep, SaveChoice::keep_second, SaveChoice::keep_third};
    std::vector<SaveChoice> choices;
    for (size_t i = 0; i < count; ++i)
        choices.push_back((recomputed >> i & 1) != 0 ? SaveChoice::recompute : kKept[random.below(3)]);
    return choices;
}

}  // namespace windlass
