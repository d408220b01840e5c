// axolotl's training files.
#include <algorithm>

#include "base/error.h"
#include "config/config_keys.h"
#include "config/foreign/draft.h"

namespace windlass {
namespace {

constexpr std::string_view kAttention = "attention never holds its scores whole";
constexpr std::string_view kKernels = "kernels are ours";
constexpr std::string_view kReport = "metrics go to metrics.jsonl, TensorBoard files and loss.svg in output_dir";
constexpr std::string_view kVocabulary = "tokens and special tokens are the model's";
constexpr std::string_view kPadding = "rows are padded to one of four lengths";
constexpr std::string_view kAdapters = "adapters are lora, ia3 and lsp, drawn as peft draws them";
constexpr std::string_view kClasses = "the family follows from config.json";
constexpr std::string_view kTokens = "tokens are kept by their content";
constexpr std::string_view kSets = "train_data, instruction_field, input_field, output_field, text_field";

void take_adapter(ForeignDraft& draft, const ForeignKey& key) {
    const std::string& name = key.value.text;
    const bool is_lora = name == "lora" || name == "qlora";
    if (name == "qlora") draft.set("weight_storage", "nf4", key.name, "4 bits: nf4, as bitsandbytes has it");
    if (is_lora && !draft.text("lora_model_dir").empty()) return;
    if (is_lora) return draft.set("adapter", "lora", key.name);
    if (!key.value.is_false())
        draft.drop(key.name, fmt::format("{} is not implemented; all parameters are trained", name));
}

void take_4_bits(ForeignDraft& draft, const ForeignKey& key) {
    if (key.value.is_true()) draft.set("weight_storage", "nf4", key.name, "load_in_4bit: nf4, as bitsandbytes has it");
}

void take_8_bits(ForeignDraft& draft, const ForeignKey& key) {
    if (key.value.is_true())
        draft.set("weight_storage", "f8", key.name, "load_in_8bit: here numbers of e4m3, not integers");
}

void take_all_linear(ForeignDraft& draft, const ForeignKey& key) {
    if (key.value.is_true()) draft.set("lora_target_modules", list_of({"all-linear"}), key.name);
}

void take_modules(ForeignDraft& draft, const ForeignKey& key) {
    if (!draft.value("lora_target_linear").is_true()) draft.set("lora_target_modules", key.value, key.name);
}

// What kind of rows they are shows in their keys; a type of its own says which ones.
void take_row_type(ForeignDraft& draft, const ForeignValue& set, const std::string& from) {
    for (const auto& [name, value] : set.members) {
        if (name != "type" || value.kind != ForeignValue::Kind::map) continue;
        for (const auto& [member, text] : value.members) {
            const std::string_view ours = member == "field_instruction" ? "instruction_field"
                                          : member == "field_input"     ? "input_field"
                                          : member == "field_output"    ? "output_field"
                                                                        : "";
            if (!ours.empty())
                draft.set(ours, text, fmt::format("{}.type.{}", from, member));
            else
                draft.drop(fmt::format("{}.type.{}", from, member), "rows have no format of their own");
        }
    }
    const std::string_view type = set.member("type");
    const bool is_known = type.empty() || type == "alpaca" || type == "completion" || type == "chat_template" ||
                          type == "sharegpt" || type == "input_output" || type.starts_with("chat_template.");
    if (!is_known)
        draft.drop(fmt::format("{}.type", from),
                   fmt::format("{} is not a kind of rows here: their keys decide the format", type));
}

bool is_chat(std::string_view type) {
    return type.starts_with("chat_template") || type.starts_with("sharegpt");
}

void take_set(ForeignDraft& draft, const ForeignValue& set, const std::string& from, ForeignValue& paths,
              bool& of_hub) {
    take_row_type(draft, set, from);
    if (is_chat(set.member("type")) && find_config_key("chat_template") == nullptr)
        draft.drop(fmt::format("{}.type", from),
                   "this version reads no chats: rows have prompt and completion, or text");
    for (const auto& [name, value] : set.members) {
        if (name == "path" || name == "type" || name == "ds_type" || name == "data_files") continue;
        if (name == "field" && set.member("type") == "completion")
            draft.set("text_field", value, fmt::format("{}.field", from));
        else if (!value.is_false())
            draft.drop(fmt::format("{}.{}", from, name), "a set is all rows of its files, read by their keys");
    }
    std::vector<std::string> files;
    for (const auto& [name, value] : set.members)
        if (name == "data_files") files = value.texts();
    if (files.empty()) files = {std::string(set.member("path"))};
    for (std::string& file : files) {
        if (file.empty()) continue;
        of_hub = of_hub || (file.find('.') == file.npos && std::ranges::count(file, '/') == 1);
        paths.items.push_back({ForeignValue::Kind::scalar, std::move(file), {}});
    }
}

void take_sets(ForeignDraft& draft, const ForeignKey& key) {
    if (key.value.is_false()) return;
    ForeignValue paths{ForeignValue::Kind::list, "", {}};
    bool of_hub = false;
    for (size_t i = 0; i < key.value.items.size(); ++i) {
        const std::string from = key.value.items.size() > 1 ? fmt::format("{}[{}]", key.name, i) : key.name;
        take_set(draft, key.value.items[i], from, paths, of_hub);
    }
    const char* const remark = of_hub ? "of the Hugging Face hub: nothing is downloaded, name a file of them" : "";
    const bool is_for_steps = key.name == "datasets" || key.name == "pretraining_dataset";
    if (paths.items.empty()) return draft.drop(key.name, "names no path");
    draft.set(is_for_steps ? "train_data" : "eval_data", paths, key.name, remark);
}

void take_template(ForeignDraft& draft, const ForeignKey& key) {
    if (find_config_key("chat_template") == nullptr)
        return draft.drop(key.name, "rows have prompt and completion: this version has no chat templates");
    const bool is_own = key.value.text == "tokenizer_default";
    draft.set("chat_template", "auto", key.name,
              is_own ? "" : fmt::format("was {}; chats go through the model's own template", key.value.text));
}

void take_preferences(ForeignDraft& draft, const ForeignKey& key) {
    const ConfigKey* const objective = find_config_key("objective");
    const std::string& name = key.value.text;
    const bool is_known =
        (name == "dpo" || name == "orpo") && std::ranges::find(objective->choices, name) != objective->choices.end();
    if (is_known) return draft.set("objective", key.value, key.name);
    draft.drop(key.name, fmt::format("{} is not supported: this configuration trains on the rows' texts", name));
}

void take_evals_per_epoch(ForeignDraft& draft, const ForeignKey& key) {
    draft.drop(key.name, std::string(kEachSteps));
}

void take_watchdog(ForeignDraft& draft, const ForeignKey& key) {
    draft.set(key.name, key.value, key.name);
}

constexpr ForeignRule kRules[] = {
    {.name = "base_model", .ours = "model"},
    {.name = "datasets", .ours = kSets, .take = take_sets},
    {.name = "pretraining_dataset", .ours = kSets, .take = take_sets},
    {.name = "test_datasets",
     .ours = "eval_data, instruction_field, input_field, output_field, text_field",
     .take = take_sets},
    {.name = "val_set_size", .ours = "val_split"},
    {.name = "sequence_len", .ours = "max_length"},
    {.name = "sample_packing", .ours = "packing"},
    {.name = "train_on_inputs", .ours = "train_on_prompt"},
    {.name = "adapter", .ours = "adapter, weight_storage", .take = take_adapter},
    {.name = "load_in_4bit", .ours = "weight_storage", .take = take_4_bits},
    {.name = "load_in_8bit", .ours = "weight_storage", .take = take_8_bits},
    {.name = "lora_r", .ours = "lora_r"},
    {.name = "lora_alpha", .ours = "lora_alpha"},
    {.name = "lora_dropout", .ours = "lora_dropout"},
    {.name = "lora_target_linear", .ours = "lora_target_modules", .take = take_all_linear},
    {.name = "lora_target_modules", .ours = "lora_target_modules", .take = take_modules},
    {.name = "peft_use_rslora", .ours = "use_rslora"},
    {.name = "lora_modules_to_save", .ours = "modules_to_save"},
    {.name = "peft_use_dora", .ours = "use_dora"},
    {.name = "lora_model_dir", .ours = "adapter", .remark = "an adapter's folder to continue from"},
    {.name = "micro_batch_size", .ours = "per_device_train_batch_size"},
    {.name = "num_epochs", .ours = "num_train_epochs"},
    {.name = "lr_scheduler", .ours = "lr_scheduler_type"},
    {.name = "cosine_min_lr_ratio", .ours = "min_lr_ratio"},
    {.name = "save_first_step", .ours = "save_first_step"},
    {.name = "loss_watchdog_threshold", .ours = "loss_watchdog_threshold", .take = take_watchdog},
    {.name = "loss_watchdog_patience", .ours = "loss_watchdog_patience", .take = take_watchdog},
    {.name = "chat_template", .ours = "chat_template", .take = take_template},
    {.name = "rl", .ours = "objective", .take = take_preferences},
    {.name = "evals_per_epoch", .reason = kEachSteps, .take = take_evals_per_epoch},
    {.name = "saves_per_epoch", .reason = "checkpoints are saved each save_steps: give a number of steps"},
    {.name = "chat_template_jinja", .reason = "chats go through the model's own template, or one in a file"},
    {.name = "eot_tokens", .reason = "the end of a turn is found in the template, and trained"},
    {.name = "use_dft", .reason = "tokens are not weighed by their probability: the loss is cross entropy"},
    {.name = "rl_beta", .ours = "preference_beta"},
    {.name = "dpo_beta", .ours = "preference_beta"},
    {.name = "orpo_alpha", .ours = "preference_beta"},
    {.name = "base_model_config", .reason = kClasses},
    {.name = "model_type", .reason = kClasses},
    {.name = "tokenizer_type", .reason = "the tokenizer is the model's"},
    {.name = "tokenizer_config", .reason = "the tokenizer is the model's"},
    {.name = "tokenizer_use_fast", .reason = "the tokenizer is the model's"},
    {.name = "is_llama_derived_model", .reason = kClasses},
    {.name = "is_mistral_derived_model", .reason = kClasses},
    {.name = "is_falcon_derived_model", .reason = kClasses},
    {.name = "strict", .reason = "unknown keys are always refused"},
    {.name = "special_tokens", .reason = kVocabulary},
    {.name = "tokens", .reason = kVocabulary},
    {.name = "added_tokens_overrides", .reason = kVocabulary},
    {.name = "resize_token_embeddings_to_32x", .reason = kVocabulary},
    {.name = "embeddings_skip_upcast", .reason = "weights are kept as the method needs them"},
    {.name = "dataset_prepared_path", .reason = kTokens},
    {.name = "dataset_processes", .reason = "rows are read by all threads"},
    {.name = "dataset_num_proc", .reason = "rows are read by all threads"},
    {.name = "push_dataset_to_hub", .reason = "nothing is sent anywhere"},
    {.name = "shuffle_merged_datasets", .reason = "rows come in a seeded order"},
    {.name = "eval_sample_packing", .reason = "packing is for both, or none"},
    {.name = "pad_to_sequence_len", .reason = kPadding},
    {.name = "excess_length_strategy",
     .reason = "truncation says it; rows with a prompt that are too long are left out"},
    {.name = "lora_fan_in_fan_out", .reason = kClasses},
    {.name = "lora_layers_to_transform", .reason = "lora_target_modules names modules"},
    {.name = "lora_mlp_kernel", .reason = kKernels},
    {.name = "lora_qkv_kernel", .reason = kKernels},
    {.name = "lora_o_kernel", .reason = kKernels},
    {.name = "loraplus_lr_ratio", .reason = "param_groups: [\"*lora_B* learning_rate_scale=16\"] says it, for 16"},
    {.name = "loraplus_lr_embedding", .reason = "embeddings have no adapter"},
    {.name = "peft", .reason = kAdapters},
    {.name = "peft_layers_to_transform", .reason = "lora_target_modules names modules"},
    {.name = "relora_steps", .reason = "ReLoRA is not implemented"},
    {.name = "relora_prune_ratio", .reason = "ReLoRA is not implemented"},
    {.name = "unfrozen_parameters",
     .reason = "param_groups: [\"*.layers.31.*\", \"* train=false\"]; patterns are globs"},
    {.name = "wandb_project", .reason = kReport},
    {.name = "wandb_entity", .reason = kReport},
    {.name = "wandb_watch", .reason = kReport},
    {.name = "wandb_name", .reason = kReport},
    {.name = "wandb_run_id", .reason = kReport},
    {.name = "wandb_log_model", .reason = kReport},
    {.name = "wandb_mode", .reason = kReport},
    {.name = "use_tensorboard", .reason = "TensorBoard files are always written"},
    {.name = "mlflow_experiment_name", .reason = kReport},
    {.name = "float16", .reason = "dtype: bf16"},
    {.name = "bfloat16", .reason = "dtype: bf16"},
    {.name = "auto_resume_from_checkpoints", .reason = "windlass train OUTPUT_DIR/run.yaml --resume"},
    {.name = "attn_implementation", .reason = kAttention},
    {.name = "xformers_attention", .reason = kAttention},
    {.name = "sdp_attention", .reason = kAttention},
    {.name = "eager_attention", .reason = kAttention},
    {.name = "flash_attn_cross_entropy", .reason = kKernels},
    {.name = "flash_attn_rms_norm", .reason = kKernels},
    {.name = "flash_attn_fuse_qkv", .reason = kKernels},
    {.name = "flash_attn_fuse_mlp", .reason = kKernels},
    {.name = "plugins", .reason = kKernels},
    {.name = "liger_rope", .reason = kKernels},
    {.name = "liger_rms_norm", .reason = kKernels},
    {.name = "liger_glu_activation", .reason = kKernels},
    {.name = "liger_layer_norm", .reason = kKernels},
    {.name = "liger_swiglu", .reason = kKernels},
    {.name = "liger_fused_linear_cross_entropy", .reason = kKernels},
    {.name = "cut_cross_entropy", .reason = "logits of a whole micro-batch never exist"},
    {.name = "unsloth_cross_entropy_loss", .reason = kKernels},
    {.name = "eval_batch_size",
     .reason = "evaluations take micro-batches of training; their losses do not depend on it"},
    {.name = "eval_table_size", .reason = "sample_prompts are continued each sample_steps"},
    {.name = "eval_max_new_tokens", .reason = "sample_prompts are continued each sample_steps"},
    {.name = "eval_causal_lm_metrics", .reason = "evaluations report the loss; with a task, its score"},
    {.name = "debug", .reason = "--trace shows a step"},
    {.name = "gptq", .reason = "weights in 4 bits are nf4, made here from the model's own"},
    {.name = "s2_attention", .reason = "attention is as config.json has it"},
    {.name = "overrides_of_model_config", .reason = "the model is as config.json has it"},
    {.name = "rope_scaling", .reason = "positions are as config.json has them"},
};

constexpr std::string_view kMarks[] = {"base_model", "datasets",     "sequence_len",   "micro_batch_size", "num_epochs",
                                       "adapter",    "val_set_size", "sample_packing", "lr_scheduler"};
constexpr ForeignDefault kDefaults[] = {{"max_length", "512"},
                                        {"num_train_epochs", "1"},
                                        {"lr_scheduler_type", "cosine"},
                                        {"per_device_train_batch_size", "1"}};

void finish(ForeignDraft& draft) {
    constexpr const char* kReason = "no new adapter is made";
    if (draft.config().adapter != "lora") {
        draft.unset("lora_r", "lora_r", kReason);
        draft.unset("lora_alpha", "lora_alpha", kReason);
        draft.unset("lora_target_modules", "lora_target_modules", kReason);
        draft.unset("use_rslora", "peft_use_rslora", kReason);
        draft.unset("modules_to_save", "lora_modules_to_save", kReason);
        draft.unset("use_dora", "peft_use_dora", kReason);
    }
    if (draft.config().adapter.empty())
        draft.unset("weight_storage", "load_in_4bit", "weights that are trained are not kept in few bits");
    if (draft.config().lora_dropout > 0) draft.unset("lora_dropout", "lora_dropout", "dropout is not implemented");
    if (draft.config().objective == "orpo")
        draft.set("train_on_prompt", "true", "rl", "the first term of TRL's ORPO is over the prompt too");
    if (!draft.is_set("objective")) draft.unset("preference_beta", "rl_beta", "no preferences are learned");
    if (draft.value("warmup_steps").text.empty() && draft.value("warmup_ratio").text.empty())
        draft.set("warmup_ratio", "0.03", "warmup_ratio", "axolotl's default, there at most 100 steps");
}

}  // namespace

const ForeignTool& axolotl() {
    static const ForeignTool tool{"axolotl", kMarks, kRules, kDefaults, finish};
    return tool;
}

}  // namespace windlass
