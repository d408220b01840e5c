// make_model.h: random models in Hugging Face form: what a family's folder holds for given sizes.
//
// Written from the published layouts alone, independent of src/model, so that the two check each other.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "format/safetensors.h"

namespace windlass::make_model {

struct Sizes {
    std::string family = "llama";
    DType dtype = DType::bf16;
    int64_t hidden = 64;
    int64_t layers = 2;
    int64_t heads = 4;
    int64_t kv_heads = 0;  // 0: as many as heads
    int64_t head_dim = 0;  // 0: hidden / heads
    int64_t ffn = 0;       // 0: 4 * hidden
    int64_t vocab = 260;
    int64_t positions = 256;
    int64_t window = 0;  // mistral: 0 means none
    bool tied = true;
    double rope_theta = 10000.0;
};

inline bool rotary(const Sizes& s) {
    return s.family != "gpt2" && s.family != "opt";
}

inline Sizes named_shape(std::string_view name) {
    if (name == "gpt2-124m")
        return {.family = "gpt2", .hidden = 768, .layers = 12, .heads = 12, .vocab = 50257, .positions = 1024};
    if (name == "llama-1.1b")
        return {.family = "llama",
                .hidden = 2048,
                .layers = 22,
                .heads = 32,
                .kv_heads = 4,
                .ffn = 5632,
                .vocab = 32000,
                .positions = 2048,
                .tied = false};
    if (name == "llama-8b")
        return {.family = "llama",
                .hidden = 4096,
                .layers = 32,
                .heads = 32,
                .kv_heads = 8,
                .ffn = 14336,
                .vocab = 128256,
                .positions = 8192,
                .tied = false,
                .rope_theta = 500000.0};
    if (name == "qwen3-32b")
        return {.family = "qwen3",
                .hidden = 5120,
                .layers = 64,
                .heads = 64,
                .kv_heads = 8,
                .head_dim = 128,
                .ffn = 25600,
                .vocab = 151936,
                .positions = 40960,
                .tied = false,
                .rope_theta = 1e6};
    if (name == "gpt2-tiny") return {.family = "gpt2"};
    if (name == "opt-tiny") return {.family = "opt"};
    if (name == "llama-tiny") return {.family = "llama", .kv_heads = 2, .ffn = 128, .tied = false};
    if (name == "mistral-tiny") return {.family = "mistral", .kv_heads = 2, .ffn = 128, .window = 32, .tied = false};
    if (name == "qwen2-tiny") return {.family = "qwen2", .kv_heads = 2, .ffn = 128, .rope_theta = 1e6};
    if (name == "qwen3-tiny") return {.family = "qwen3", .kv_heads = 2, .head_dim = 32, .ffn = 128, .rope_theta = 1e6};
    throw UserError(ExitCode::usage, "--shape", "there is no shape named {}", name)
        .hint(
            "gpt2-124m, llama-1.1b, llama-8b, qwen3-32b, or gpt2, opt, llama, mistral, qwen2, qwen3 with -tiny behind");
}

// Fills in what 0 stands for; throws UserError(usage) where sizes contradict each other.
inline Sizes resolved(Sizes s) {
    const auto must = [](bool holds, std::string_view flag, std::string_view rule) {
        if (!holds) throw UserError(ExitCode::usage, flag, "{}", rule);
    };
    if (s.kv_heads == 0) s.kv_heads = s.heads;
    if (s.ffn == 0) s.ffn = 4 * s.hidden;
    if (s.head_dim == 0) {
        must(s.hidden % s.heads == 0, "--heads", "must divide the hidden size unless --head-dim is given");
        s.head_dim = s.hidden / s.heads;
    }
    must(s.heads % s.kv_heads == 0, "--kv-heads", "must divide the number of heads");
    must(!rotary(s) || s.head_dim % 2 == 0, "--head-dim", "must be even: rotary positions turn pairs");
    must(rotary(s) || s.kv_heads == s.heads, "--kv-heads", "gpt2 and opt have as many key heads as heads");
    must((rotary(s) && s.family != "qwen2") || s.head_dim * s.heads == s.hidden, "--head-dim",
         "gpt2, opt and qwen2 have heads x head size = hidden size");
    must(s.window == 0 || s.family == "mistral", "--window", "is for mistral");
    return s;
}

enum class Init { normal, ones, zeros };

struct Parameter {
    TensorSpec spec;
    Init init;
};

// The parameters of a model in the order in which transformers lists them.
class ParameterList {
  public:
    explicit ParameterList(DType dtype) : dtype_(dtype) {}
    void add(std::string name, Shape shape, Init init) { list_.push_back({{std::move(name), dtype_, shape}, init}); }
    void table(const std::string& name, int64_t rows, int64_t width) {
        add(name + ".weight", {rows, width}, Init::normal);
    }
    void linear(const std::string& name, int64_t out, int64_t in, bool bias) {
        add(name + ".weight", {out, in}, Init::normal);
        if (bias) add(name + ".bias", {out}, Init::zeros);
    }
    // A linear layer stored as GPT-2 does, [in, out].
    void conv1d(const std::string& name, int64_t out, int64_t in) {
        add(name + ".weight", {in, out}, Init::normal);
        add(name + ".bias", {out}, Init::zeros);
    }
    void rms_norm(const std::string& name, int64_t width) { add(name + ".weight", {width}, Init::ones); }
    void layer_norm(const std::string& name, int64_t width) {
        add(name + ".weight", {width}, Init::ones);
        add(name + ".bias", {width}, Init::zeros);
    }
    std::vector<Parameter> take() { return std::move(list_); }

  private:
    DType dtype_;
    std::vector<Parameter> list_;
};

inline std::vector<Parameter> gpt2_parameters(const Sizes& s) {
    ParameterList list(s.dtype);
    list.table("transformer.wte", s.vocab, s.hidden);
    list.table("transformer.wpe", s.positions, s.hidden);
    for (int64_t i = 0; i < s.layers; ++i) {
        const std::string block = fmt::format("transformer.h.{}.", i);
        list.layer_norm(block + "ln_1", s.hidden);
        list.conv1d(block + "attn.c_attn", 3 * s.hidden, s.hidden);
        list.conv1d(block + "attn.c_proj", s.hidden, s.hidden);
        list.layer_norm(block + "ln_2", s.hidden);
        list.conv1d(block + "mlp.c_fc", s.ffn, s.hidden);
        list.conv1d(block + "mlp.c_proj", s.hidden, s.ffn);
    }
    list.layer_norm("transformer.ln_f", s.hidden);
    if (!s.tied) list.table("lm_head", s.vocab, s.hidden);
    return list.take();
}

inline std::vector<Parameter> opt_parameters(const Sizes& s) {
    constexpr int64_t kPositionOffset = 2;
    ParameterList list(s.dtype);
    list.table("model.decoder.embed_tokens", s.vocab, s.hidden);
    list.table("model.decoder.embed_positions", s.positions + kPositionOffset, s.hidden);
    list.layer_norm("model.decoder.final_layer_norm", s.hidden);
    for (int64_t i = 0; i < s.layers; ++i) {
        const std::string block = fmt::format("model.decoder.layers.{}.", i);
        for (const char* name : {"k_proj", "v_proj", "q_proj", "out_proj"})
            list.linear(block + "self_attn." + name, s.hidden, s.hidden, true);
        list.layer_norm(block + "self_attn_layer_norm", s.hidden);
        list.linear(block + "fc1", s.ffn, s.hidden, true);
        list.linear(block + "fc2", s.hidden, s.ffn, true);
        list.layer_norm(block + "final_layer_norm", s.hidden);
    }
    if (!s.tied) list.table("lm_head", s.vocab, s.hidden);
    return list.take();
}

// llama, mistral, qwen2 (biases on q, k, v) and qwen3 (norms of q and k per head).
inline std::vector<Parameter> llama_parameters(const Sizes& s) {
    const bool bias = s.family == "qwen2";
    ParameterList list(s.dtype);
    list.table("model.embed_tokens", s.vocab, s.hidden);
    for (int64_t i = 0; i < s.layers; ++i) {
        const std::string block = fmt::format("model.layers.{}.", i);
        list.linear(block + "self_attn.q_proj", s.heads * s.head_dim, s.hidden, bias);
        list.linear(block + "self_attn.k_proj", s.kv_heads * s.head_dim, s.hidden, bias);
        list.linear(block + "self_attn.v_proj", s.kv_heads * s.head_dim, s.hidden, bias);
        list.linear(block + "self_attn.o_proj", s.hidden, s.heads * s.head_dim, false);
        if (s.family == "qwen3") {
            list.rms_norm(block + "self_attn.q_norm", s.head_dim);
            list.rms_norm(block + "self_attn.k_norm", s.head_dim);
        }
        list.linear(block + "mlp.gate_proj", s.ffn, s.hidden, false);
        list.linear(block + "mlp.up_proj", s.ffn, s.hidden, false);
        list.linear(block + "mlp.down_proj", s.hidden, s.ffn, false);
        list.rms_norm(block + "input_layernorm", s.hidden);
        list.rms_norm(block + "post_attention_layernorm", s.hidden);
    }
    list.rms_norm("model.norm", s.hidden);
    if (!s.tied) list.table("lm_head", s.vocab, s.hidden);
    return list.take();
}

inline std::vector<Parameter> parameters(const Sizes& s) {
    if (s.family == "gpt2") return gpt2_parameters(s);
    if (s.family == "opt") return opt_parameters(s);
    return llama_parameters(s);
}

// Ids of the special tokens of the byte-level tokenizer; a smaller vocabulary has no tokenizer.
inline constexpr int64_t kBos = 256, kEos = 257, kPad = 258, kUnknown = 259, kTokenizerVocab = 260;

inline bool has_tokenizer(const Sizes& s) {
    return s.vocab >= kTokenizerVocab;
}

inline Json common_config(const Sizes& s, std::string_view architecture) {
    const auto torch_name = s.dtype == DType::bf16 ? "bfloat16" : s.dtype == DType::f16 ? "float16" : "float32";
    return {{"architectures", {architecture}},
            {"model_type", s.family},
            {"torch_dtype", torch_name},
            {"vocab_size", s.vocab},
            {"bos_token_id", has_tokenizer(s) ? kBos : s.vocab - 1},
            {"eos_token_id", has_tokenizer(s) ? kEos : s.vocab - 1},
            {"tie_word_embeddings", s.tied},
            {"use_cache", true}};
}

inline Json gpt2_config(const Sizes& s) {
    Json config = common_config(s, "GPT2LMHeadModel");
    config.update({{"activation_function", "gelu_new"},
                   {"n_embd", s.hidden},
                   {"n_head", s.heads},
                   {"n_inner", s.ffn},
                   {"n_layer", s.layers},
                   {"n_positions", s.positions},
                   {"layer_norm_epsilon", 1e-5},
                   {"scale_attn_weights", true},
                   {"initializer_range", 0.02},
                   {"attn_pdrop", 0.0},
                   {"embd_pdrop", 0.0},
                   {"resid_pdrop", 0.0}});
    return config;
}

inline Json opt_config(const Sizes& s) {
    Json config = common_config(s, "OPTForCausalLM");
    config.update({{"activation_function", "relu"},
                   {"hidden_size", s.hidden},
                   {"word_embed_proj_dim", s.hidden},
                   {"num_attention_heads", s.heads},
                   {"ffn_dim", s.ffn},
                   {"num_hidden_layers", s.layers},
                   {"max_position_embeddings", s.positions},
                   {"do_layer_norm_before", true},
                   {"enable_bias", true},
                   {"layer_norm_elementwise_affine", true},
                   {"init_std", 0.02},
                   {"dropout", 0.0},
                   {"attention_dropout", 0.0},
                   {"layerdrop", 0.0},
                   {"pad_token_id", has_tokenizer(s) ? kPad : s.vocab - 1}});
    return config;
}

inline Json llama_config(const Sizes& s) {
    const std::string_view architecture = s.family == "llama"     ? "LlamaForCausalLM"
                                          : s.family == "mistral" ? "MistralForCausalLM"
                                          : s.family == "qwen2"   ? "Qwen2ForCausalLM"
                                                                  : "Qwen3ForCausalLM";
    Json config = common_config(s, architecture);
    config.update({{"hidden_act", "silu"},
                   {"hidden_size", s.hidden},
                   {"intermediate_size", s.ffn},
                   {"num_hidden_layers", s.layers},
                   {"num_attention_heads", s.heads},
                   {"num_key_value_heads", s.kv_heads},
                   {"max_position_embeddings", s.positions},
                   {"rms_norm_eps", s.family == "llama" || s.family == "mistral" ? 1e-5 : 1e-6},
                   {"rope_theta", s.rope_theta},
                   {"initializer_range", 0.02},
                   {"attention_dropout", 0.0}});
    if (s.family != "qwen2") config["head_dim"] = s.head_dim;
    if (s.family == "llama") config.update({{"attention_bias", false}, {"mlp_bias", false}, {"rope_scaling", nullptr}});
    if (s.family == "mistral") config["sliding_window"] = s.window > 0 ? Json(s.window) : Json(nullptr);
    if (s.family == "qwen2") config["use_sliding_window"] = false;
    if (s.family == "qwen3") config.update({{"attention_bias", false}, {"use_sliding_window", false}});
    return config;
}

// config.json, in the spelling that both transformers 4 and 5 read.
inline Json config(const Sizes& s) {
    if (s.family == "gpt2") return gpt2_config(s);
    if (s.family == "opt") return opt_config(s);
    return llama_config(s);
}

}  // namespace windlass::make_model
