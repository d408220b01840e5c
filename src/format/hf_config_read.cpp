// What transformers reads of config.json, as tools/reference/config_keys.py finds it in its code. A test compares these
// lists with what that wrote (tests/golden/config_keys.json).
#include "format/hf_config_keys.h"

#include <algorithm>

namespace windlass {
namespace {

constexpr std::string_view kAll[] = {"_attn_implementation",
                                     "_attn_implementation_internal",
                                     "_commit_hash",
                                     "_experts_implementation",
                                     "_experts_implementation_internal",
                                     "_name_or_path",
                                     "_output_attentions",
                                     "_post_init_done",
                                     "allow_global_per_layer_attribute_access",
                                     "architectures",
                                     "attention_chunk_size",
                                     "attention_dropout",
                                     "attn_implementation",
                                     "base_model_pp_plan",
                                     "base_model_tp_plan",
                                     "bos_token_id",
                                     "chain_hidden_post_norm",
                                     "chunk_size_feed_forward",
                                     "classifier_dropout",
                                     "distributed_config",
                                     "dtype",
                                     "eos_token_id",
                                     "experts_implementation",
                                     "first_k_dense_replace",
                                     "fusion_config",
                                     "gradient_checkpointing",
                                     "head_dim",
                                     "hidden_dropout",
                                     "hidden_size",
                                     "id2label",
                                     "init_std",
                                     "initializer_factor",
                                     "initializer_range",
                                     "is_causal",
                                     "is_encoder_decoder",
                                     "is_heterogeneous",
                                     "kv_sharing_modes",
                                     "label2id",
                                     "layer_types",
                                     "logits_mup_width_multiplier",
                                     "max_position_embeddings",
                                     "mlp_layer_types",
                                     "model_type",
                                     "mtp_hidden_states_first",
                                     "mtp_layer_types",
                                     "mtp_mlp_layer_types",
                                     "mtp_per_layer_config",
                                     "name_or_path",
                                     "num_attention_heads",
                                     "num_hidden_layers",
                                     "num_labels",
                                     "num_mtp_layers",
                                     "output_attentions",
                                     "output_hidden_states",
                                     "pad_token_id",
                                     "per_layer_attributes",
                                     "per_layer_config",
                                     "problem_type",
                                     "return_dict",
                                     "rms_norm_eps",
                                     "rope_parameters",
                                     "rope_scaling",
                                     "sep_token_id",
                                     "serialize_explicit_per_layer_config",
                                     "sliding_window",
                                     "sub_configs",
                                     "tie_word_embeddings",
                                     "token_classification_bias",
                                     "torch_dtype",
                                     "transformers_version",
                                     "transformers_weights",
                                     "unpadded_vocab_size",
                                     "use_return_dict",
                                     "vocab_size"};

constexpr std::string_view kGemma2[] = {"_rope_type_labels",
                                        "attention_bias",
                                        "attn_logit_softcapping",
                                        "final_logit_softcapping",
                                        "hidden_activation",
                                        "intermediate_size",
                                        "num_key_value_heads",
                                        "original_max_position_embeddings",
                                        "partial_rotary_factor",
                                        "query_pre_attn_scalar",
                                        "rope_theta",
                                        "use_bidirectional_attention",
                                        "use_cache"};

constexpr std::string_view kGemma3[] = {"attention_bias",
                                        "attn_logit_softcapping",
                                        "boi_token_id",
                                        "boi_token_index",
                                        "eoi_token_id",
                                        "eoi_token_index",
                                        "final_logit_softcapping",
                                        "hidden_activation",
                                        "image_token_id",
                                        "image_token_index",
                                        "intermediate_size",
                                        "mm_tokens_per_image",
                                        "num_key_value_heads",
                                        "query_pre_attn_scalar",
                                        "text_config",
                                        "use_bidirectional_attention",
                                        "vision_config"};

constexpr std::string_view kGemma3Text[] = {"_rope_type_labels",
                                            "_sliding_window_pattern",
                                            "attention_bias",
                                            "attn_logit_softcapping",
                                            "final_logit_softcapping",
                                            "hidden_activation",
                                            "image_token_id",
                                            "intermediate_size",
                                            "mm_tokens_per_image",
                                            "num_key_value_heads",
                                            "original_max_position_embeddings",
                                            "partial_rotary_factor",
                                            "query_pre_attn_scalar",
                                            "rope_local_base_freq",
                                            "rope_theta",
                                            "sliding_window_pattern",
                                            "text_config",
                                            "use_bidirectional_attention",
                                            "use_cache",
                                            "vision_config"};

constexpr std::string_view kGpt2[] = {"activation_function",
                                      "add_cross_attention",
                                      "attn_pdrop",
                                      "embd_pdrop",
                                      "layer_norm_epsilon",
                                      "n_embd",
                                      "n_head",
                                      "n_inner",
                                      "n_layer",
                                      "n_positions",
                                      "reorder_and_upcast_attn",
                                      "resid_pdrop",
                                      "scale_attn_by_inverse_layer_idx",
                                      "scale_attn_weights",
                                      "summary_activation",
                                      "summary_first_dropout",
                                      "summary_last_dropout",
                                      "summary_proj_to_labels",
                                      "summary_type",
                                      "summary_use_proj",
                                      "use_cache"};

constexpr std::string_view kLlama[] = {"_rope_type_labels",
                                       "attention_bias",
                                       "hidden_act",
                                       "intermediate_size",
                                       "mlp_bias",
                                       "num_key_value_heads",
                                       "original_max_position_embeddings",
                                       "partial_rotary_factor",
                                       "pretraining_tp",
                                       "rope_theta",
                                       "use_cache"};

constexpr std::string_view kMistral[] = {"_rope_type_labels",
                                         "hidden_act",
                                         "intermediate_size",
                                         "num_key_value_heads",
                                         "original_max_position_embeddings",
                                         "partial_rotary_factor",
                                         "rope_theta",
                                         "use_cache"};

constexpr std::string_view kOpt[] = {"_remove_final_layer_norm",
                                     "activation_function",
                                     "do_layer_norm_before",
                                     "dropout",
                                     "enable_bias",
                                     "ffn_dim",
                                     "layer_norm_elementwise_affine",
                                     "layerdrop",
                                     "use_cache",
                                     "word_embed_proj_dim"};

constexpr std::string_view kQwen2[] = {
    "_rope_type_labels",     "hidden_act",          "intermediate_size",
    "max_window_layers",     "num_key_value_heads", "original_max_position_embeddings",
    "partial_rotary_factor", "rope_theta",          "use_cache",
    "use_sliding_window"};

constexpr std::string_view kQwen3[] = {"_rope_type_labels",
                                       "attention_bias",
                                       "hidden_act",
                                       "intermediate_size",
                                       "max_window_layers",
                                       "num_key_value_heads",
                                       "original_max_position_embeddings",
                                       "partial_rotary_factor",
                                       "rope_theta",
                                       "use_cache",
                                       "use_sliding_window"};

constexpr std::string_view kGranite[] = {"_rope_type_labels",
                                         "attention_bias",
                                         "attention_multiplier",
                                         "embedding_multiplier",
                                         "hidden_act",
                                         "intermediate_size",
                                         "logits_scaling",
                                         "mlp_bias",
                                         "num_key_value_heads",
                                         "original_max_position_embeddings",
                                         "partial_rotary_factor",
                                         "residual_multiplier",
                                         "rope_theta",
                                         "use_cache"};

constexpr std::string_view kOlmo2[] = {
    "_rope_type_labels",     "attention_bias",      "hidden_act",
    "intermediate_size",     "num_key_value_heads", "original_max_position_embeddings",
    "partial_rotary_factor", "rope_theta",          "use_cache"};

constexpr std::string_view kPhi3[] = {"_rope_type_labels",
                                      "embd_pdrop",
                                      "hidden_act",
                                      "intermediate_size",
                                      "num_key_value_heads",
                                      "original_max_position_embeddings",
                                      "partial_rotary_factor",
                                      "resid_pdrop",
                                      "rope_theta",
                                      "use_cache"};

constexpr std::string_view kSmollm3[] = {"_rope_type_labels",
                                         "attention_bias",
                                         "hidden_act",
                                         "intermediate_size",
                                         "mlp_bias",
                                         "no_rope_layer_interval",
                                         "no_rope_layers",
                                         "num_key_value_heads",
                                         "original_max_position_embeddings",
                                         "partial_rotary_factor",
                                         "rope_theta",
                                         "use_cache",
                                         "use_sliding_window"};

struct TypeKeys {
    std::string_view model_type;
    std::span<const std::string_view> keys;
};
constexpr TypeKeys kTypes[] = {{"gemma2", kGemma2},   {"gemma3", kGemma3},   {"gemma3_text", kGemma3Text},
                               {"gpt2", kGpt2},       {"granite", kGranite}, {"llama", kLlama},
                               {"mistral", kMistral}, {"olmo2", kOlmo2},     {"opt", kOpt},
                               {"phi3", kPhi3},       {"qwen2", kQwen2},     {"qwen3", kQwen3},
                               {"smollm3", kSmollm3}};

}  // namespace

KeysRead keys_read(std::string_view model_type) {
    const auto at = std::ranges::find(kTypes, model_type, &TypeKeys::model_type);
    return {.of_all = kAll, .of_type = at == std::end(kTypes) ? std::span<const std::string_view>() : at->keys};
}

bool transformers_reads(std::string_view model_type, std::string_view key) {
    const auto [of_all, of_type] = keys_read(model_type);
    return of_type.empty() || std::ranges::find(of_type, key) != of_type.end() ||
           std::ranges::find(of_all, key) != of_all.end();
}

}  // namespace windlass
