// LLaMA-Factory's training files: its own keys, and those of transformers under it.
#include <algorithm>

#include "base/error.h"
#include "config/config_keys.h"
#include "config/foreign/draft.h"

namespace windlass {
namespace {

constexpr std::string_view kVision = "images, videos and sound are not trained on";
constexpr std::string_view kGalore =
    "GaLore and its like are not implemented; lsp is a preset that trains in a subspace";
constexpr std::string_view kBadam =
    "BAdam is not implemented; lomo and adalomo are presets that train all parameters in little memory";
constexpr std::string_view kPeft = "adapters are lora, ia3 and lsp, drawn as peft draws them";
constexpr std::string_view kPredict = "windlass generate and windlass eval write and judge answers";

bool takes_objective(std::string_view name) {
    const ConfigKey* const key = find_config_key("objective");
    return std::ranges::find(key->choices, name) != key->choices.end();
}

void take_stage(ForeignDraft& draft, const ForeignKey& key) {
    const std::string& stage = key.value.text;
    if (stage == "sft" || stage == "pt") return;
    const std::string_view loss = draft.text("pref_loss");
    const std::string objective(stage != "dpo" || loss.empty() || loss == "sigmoid" ? stage : loss);
    if (stage == "dpo" && takes_objective(objective)) return draft.set("objective", objective, key.name);
    draft.drop(key.name, fmt::format("{} is not supported: this configuration trains on the rows' texts", objective));
}

void take_finetuning_type(ForeignDraft& draft, const ForeignKey& key) {
    const std::string& type = key.value.text;
    if (type == "full") return;
    if (type == "lora" && !draft.text("adapter_name_or_path").empty()) return;
    if (type == "lora") return draft.set("adapter", "lora", key.name);
    draft.drop(key.name,
               type == "freeze"
                   ? "which layers are trained is said by param_groups: [\"*.layers.31.*\", \"* train=false\"]; "
                     "without it all are"
                   : fmt::format("{} is not implemented; all parameters are trained", type));
}

void take_target(ForeignDraft& draft, const ForeignKey& key) {
    if (key.value.text == "all") return draft.set("lora_target_modules", list_of({"all-linear"}), key.name);
    draft.set("lora_target_modules", parted_by_commas(key.value.texts()), key.name);
}

void take_whole_modules(ForeignDraft& draft, const ForeignKey& key) {
    draft.set("modules_to_save", parted_by_commas(key.value.texts()), key.name);
}

void take_bits(ForeignDraft& draft, const ForeignKey& key) {
    if (key.value.text == "4")
        return draft.set("weight_storage", "nf4", key.name, "quantization_bit was 4: nf4, as bitsandbytes has it");
    if (key.value.text == "8")
        return draft.set("weight_storage", "f8", key.name,
                         "quantization_bit was 8: here numbers of e4m3, not integers");
    draft.drop(key.name, "weights are kept in 4 or 8 bits, or as in their files");
}

// A name in dataset_info.json is an alias of a file.
void take_dataset(ForeignDraft& draft, const ForeignKey& key) {
    const std::string folder(draft.text("dataset_dir").empty() ? "data" : draft.text("dataset_dir"));
    ForeignValue list = parted_by_commas(key.value.texts());
    for (ForeignValue& item : list.items) item.text = fmt::format("{}/{}.json", folder, item.text);
    draft.set(key.name == "dataset" ? "train_data" : "eval_data", list, key.name,
              "names of dataset_info.json, as files: put those that it means");
}

void take_template(ForeignDraft& draft, const ForeignKey& key) {
    constexpr const char* kOwn = "chats go through the model's own template";
    if (find_config_key("chat_template") != nullptr)
        draft.set("chat_template", "auto", key.name, fmt::format("template was {}; {}", key.value.text, kOwn));
    else
        draft.drop(key.name, "rows have prompt and completion: this version has no chat templates");
}

void take_history(ForeignDraft& draft, const ForeignKey& key) {
    if (key.value.is_true()) draft.set("train_turns", "last", key.name);
}

void take_packing(ForeignDraft& draft, const ForeignKey& key) {
    if (key.value.is_true() && !draft.is_set("packing"))
        draft.set("packing", "true", key.name, "packed rows never see each other, as with neat_packing");
}

constexpr ForeignRule kRules[] = {
    {.name = "model_name_or_path", .ours = "model"},
    {.name = "stage", .ours = "objective", .take = take_stage},
    {.name = "finetuning_type", .ours = "adapter, lora_r, lora_alpha", .take = take_finetuning_type},
    {.name = "lora_rank", .ours = "lora_r"},
    {.name = "lora_alpha", .ours = "lora_alpha"},
    {.name = "lora_target", .ours = "lora_target_modules", .take = take_target},
    {.name = "lora_dropout", .ours = "lora_dropout"},
    {.name = "adapter_name_or_path", .ours = "adapter", .remark = "an adapter's folder to continue from"},
    {.name = "quantization_bit", .ours = "weight_storage", .take = take_bits},
    {.name = "dataset", .ours = "train_data", .take = take_dataset},
    {.name = "eval_dataset", .ours = "eval_data", .take = take_dataset},
    {.name = "template", .ours = "chat_template", .take = take_template},
    {.name = "mask_history", .ours = "train_turns", .take = take_history},
    {.name = "cutoff_len",
     .ours = "max_length",
     .remark = "longer rows with a prompt are left out (truncation), not cut"},
    {.name = "max_samples", .ours = "train_samples", .remark = "was for each dataset, is for all together"},
    {.name = "val_size", .ours = "val_split"},
    {.name = "packing", .ours = "packing", .take = take_packing},
    {.name = "neat_packing", .ours = "packing", .take = take_packing},
    {.name = "train_on_prompt", .ours = "train_on_prompt"},
    {.name = "per_device_train_batch_size", .ours = "per_device_train_batch_size"},
    {.name = "num_train_epochs", .ours = "num_train_epochs"},
    {.name = "lr_scheduler_type", .ours = "lr_scheduler_type"},
    {.name = "overwrite_output_dir", .ours = "overwrite"},
    {.name = "early_stopping_steps", .ours = "early_stopping_patience"},
    {.name = "dataset_dir", .reason = "files are named by themselves"},
    {.name = "do_train", .reason = "windlass train always trains"},
    {.name = "do_eval", .reason = "a run evaluates where there are rows for it"},
    {.name = "do_predict", .reason = kPredict},
    {.name = "predict_with_generate", .reason = kPredict},
    {.name = "plot_loss", .reason = "every run draws loss.svg"},
    {.name = "overwrite_cache", .reason = "tokens are kept by their content"},
    {.name = "cache_dir", .reason = "nothing is downloaded"},
    {.name = "tokenized_path", .reason = "tokens are kept by their content"},
    {.name = "preprocessing_num_workers", .reason = "rows are read by all threads"},
    {.name = "preprocessing_batch_size", .reason = "rows are read by all threads"},
    {.name = "streaming", .reason = "rows are read through a cache of tokens"},
    {.name = "mix_strategy", .reason = "all files are one set of rows"},
    {.name = "interleave_probs", .reason = "all files are one set of rows"},
    {.name = "flash_attn", .reason = "attention never holds its scores whole"},
    {.name = "enable_liger_kernel", .reason = "kernels are ours"},
    {.name = "use_unsloth", .reason = "kernels are ours"},
    {.name = "use_unsloth_gc", .reason = "kernels are ours"},
    {.name = "disable_gradient_checkpointing", .reason = "the plan chooses what is computed again"},
    {.name = "pure_bf16", .reason = "masters are f32 in two halves, and steps compute with the bf16 one"},
    {.name = "upcast_layernorm", .reason = "norms are computed in f32"},
    {.name = "rope_scaling", .reason = "positions are as config.json has them"},
    {.name = "shift_attn", .reason = "attention is as config.json has it"},
    {.name = "mixture_of_depths", .reason = "the model is as config.json has it"},
    {.name = "resize_vocab", .reason = "the vocabulary is the model's"},
    {.name = "add_tokens", .reason = "the vocabulary is the model's"},
    {.name = "quantization_method", .reason = "4 bits are nf4, 8 bits e4m3"},
    {.name = "quantization_type", .reason = "4 bits are nf4"},
    {.name = "double_quantization", .reason = "scales of nf4 are kept as they are"},
    {.name = "pissa_init", .reason = kPeft},
    {.name = "pissa_iter", .reason = kPeft},
    {.name = "create_new_adapter", .reason = kPeft},
    {.name = "additional_target", .ours = "modules_to_save", .take = take_whole_modules},
    {.name = "loraplus_lr_ratio", .reason = "param_groups: [\"*lora_B* learning_rate_scale=16\"] says it, for 16"},
    {.name = "freeze_trainable_layers",
     .reason = "param_groups: [\"*.layers.31.*\", \"* train=false\"] trains one layer"},
    {.name = "freeze_trainable_modules",
     .reason = "param_groups: [\"*.mlp.*\", \"* train=false\"] trains such modules"},
    {.name = "freeze_extra_modules", .reason = "param_groups says which modules are trained"},
    {.name = "use_llama_pro",
     .reason = "blocks that were put between others are layers like them: param_groups names them"},
    {.name = "use_dft_loss", .reason = "tokens are not weighed by their probability: the loss is cross entropy"},
    {.name = "use_galore", .reason = kGalore},
    {.name = "galore_layerwise", .reason = kGalore},
    {.name = "galore_target", .reason = kGalore},
    {.name = "galore_rank", .reason = kGalore},
    {.name = "galore_scale", .reason = kGalore},
    {.name = "galore_update_interval", .reason = kGalore},
    {.name = "use_apollo", .reason = kGalore},
    {.name = "apollo_layerwise", .reason = kGalore},
    {.name = "apollo_target", .reason = kGalore},
    {.name = "apollo_rank", .reason = kGalore},
    {.name = "apollo_scale", .reason = kGalore},
    {.name = "use_badam", .reason = kBadam},
    {.name = "badam_mode", .reason = kBadam},
    {.name = "badam_switch_mode", .reason = kBadam},
    {.name = "badam_switch_interval", .reason = kBadam},
    {.name = "badam_verbose", .reason = kBadam},
    {.name = "use_adam_mini", .reason = "state_format: int8 keeps less of AdamW's state"},
    {.name = "use_muon", .reason = "Muon is not implemented: the run uses adamw"},
    {.name = "pref_beta", .ours = "preference_beta"},
    {.name = "pref_loss", .reason = "objective says which loss of preferences is learned"},
    {.name = "pref_ftx", .reason = "the preference loss has no additional term for the chosen answer alone"},
    {.name = "ref_model", .reason = "the reference is the base itself"},
    {.name = "reward_model", .reason = "reward models are not trained, and none is asked"},
    {.name = "compute_accuracy", .reason = "evaluations report the loss; with a task, its score"},
    {.name = "use_swanlab", .reason = "metrics go to metrics.jsonl, TensorBoard files and loss.svg in output_dir"},
    {.name = "swanlab_project", .reason = "metrics go to metrics.jsonl, TensorBoard files and loss.svg in output_dir"},
    {.name = "image_max_pixels", .reason = kVision},
    {.name = "video_max_pixels", .reason = kVision},
    {.name = "freeze_vision_tower", .reason = kVision},
    {.name = "freeze_multi_modal_projector", .reason = kVision},
};

constexpr std::string_view kMarks[] = {"model_name_or_path", "stage",     "finetuning_type", "template", "cutoff_len",
                                       "do_train",           "lora_rank", "dataset",         "val_size"};
constexpr ForeignDefault kDefaults[] = {
    {"learning_rate", "5e-5"}, {"max_length", "2048"}, {"per_device_train_batch_size", "8"}};

// Without an adapter, its keys say nothing; with one, the tool's defaults are other ones than ours.
void finish(ForeignDraft& draft) {
    constexpr const char* kReason = "no new adapter is made";
    if (draft.config().adapter != "lora") {
        draft.unset("lora_r", "lora_rank", kReason);
        draft.unset("lora_alpha", "lora_alpha", kReason);
        draft.unset("lora_target_modules", "lora_target", kReason);
        draft.unset("use_rslora", "use_rslora", kReason);
        draft.unset("modules_to_save", "additional_target", kReason);
        draft.unset("use_dora", "use_dora", kReason);
    }
    if (draft.config().adapter == "lora") {
        if (!draft.is_set("lora_r")) draft.set("lora_r", "8", "lora_rank", "LLaMA-Factory's default");
        if (!draft.is_set("lora_alpha"))
            draft.set("lora_alpha", std::to_string(2 * draft.config().lora_r), "lora_alpha",
                      "LLaMA-Factory's default: twice the rank");
    }
    if (draft.config().adapter.empty())
        draft.unset("weight_storage", "quantization_bit", "weights that are trained are not kept in few bits");
    if (draft.config().lora_dropout > 0) draft.unset("lora_dropout", "lora_dropout", "dropout is not implemented");
    if (!draft.is_set("objective")) draft.unset("preference_beta", "pref_beta", "no preferences are learned");
}

}  // namespace

const ForeignTool& llama_factory() {
    static const ForeignTool tool{"LLaMA-Factory", kMarks, kRules, kDefaults, finish};
    return tool;
}

}  // namespace windlass
