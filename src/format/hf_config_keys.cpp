#include "format/hf_config_keys.h"

#include <array>

namespace windlass {
namespace {

constexpr std::string_view kNeutral[] = {
    // where the file comes from and what reads it
    "architectures", "model_type", "_name_or_path", "name_or_path", "_commit_hash", "transformers_version", "auto_map",
    "torch_dtype", "dtype", "use_bfloat16", "tokenizer", "tokenizer_class", "prefix", "unsloth_version",
    "unsloth_fixed",
    // token ids
    "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "unk_token_id", "mask_token_id",
    "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id",
    // initialisation, caching and how a framework runs the model
    "initializer_range", "use_cache", "cache_implementation", "gradient_checkpointing", "torchscript", "return_dict",
    "return_dict_in_generate", "output_attentions", "output_hidden_states", "output_scores", "attn_implementation",
    "_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal", "chunk_size_feed_forward",
    "tf_legacy_loss", "mask_value", "init_std", "initializer_factor", "use_return_dict", "base_model_tp_plan",
    "base_model_pp_plan",
    // defaults of generation that older files keep here
    "max_length", "min_length", "max_new_tokens", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
    "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty",
    "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences",
    "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens",
    // what a model sees and hears besides text
    "vision_config", "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index",
    // heads of other tasks
    "id2label", "label2id", "num_labels", "problem_type", "finetuning_task", "task_specific_params",
    "predict_special_tokens", "summary_activation", "summary_proj_to_labels", "summary_type", "summary_use_proj",
    "n_special", "n_ctx"};

constexpr std::string_view kOffByFalse[] = {"use_sliding_window",
                                            "attn_logit_softcapping",
                                            "final_logit_softcapping",
                                            "logit_softcapping",
                                            "attention_bias",
                                            "mlp_bias",
                                            "lm_head_bias",
                                            "qkv_bias",
                                            "use_mrope",
                                            "use_qk_norm",
                                            "quantization_config",
                                            "quantization",
                                            "compression_config",
                                            "rope_scaling",
                                            "rope_interleaved",
                                            "attention_sinks",
                                            "is_decoder",
                                            "is_encoder_decoder",
                                            "add_cross_attention",
                                            "cross_attention_hidden_size",
                                            "tie_encoder_decoder",
                                            "scale_attn_by_inverse_layer_idx",
                                            "reorder_and_upcast_attn",
                                            "num_experts",
                                            "num_local_experts",
                                            "use_res_clamp",
                                            "use_parallel_residual",
                                            "pruned_heads",
                                            "_remove_final_layer_norm",
                                            "parallel_attn",
                                            "alibi",
                                            "dual_chunk_attention_config"};  // read by servers, not by transformers

constexpr std::string_view kOffByTrue[] = {"scale_attn_weights"};

constexpr std::string_view kOffByOne[] = {"pretraining_tp",       "partial_rotary_factor", "residual_multiplier",
                                          "embedding_multiplier", "logits_scaling",        "logit_scale"};

bool among(std::string_view key, std::span<const std::string_view> keys) {
    return std::ranges::find(keys, key) != keys.end();
}

}  // namespace

KeyMeaning meaning_of(std::string_view key) {
    if (key.find("dropout") != std::string_view::npos || key.ends_with("pdrop") || key.ends_with("layerdrop"))
        return KeyMeaning::dropout;
    if (among(key, kNeutral)) return KeyMeaning::neutral;
    if (among(key, kOffByFalse)) return KeyMeaning::off_by_false;
    if (among(key, kOffByTrue)) return KeyMeaning::off_by_true;
    if (among(key, kOffByOne)) return KeyMeaning::off_by_one;
    return KeyMeaning::unknown;
}

}  // namespace windlass
