#include "config/key_advice.h"

#include <algorithm>

#include "base/error.h"
#include "base/shell_word.h"
#include "config/config_keys.h"
#include "config/config_values.h"

namespace windlass {
namespace {

constexpr std::string_view kPlaced = "placement follows from the budgets";
constexpr std::string_view kOneDevice = "one device computes";
constexpr std::string_view kNoUpload = "nothing is uploaded; `hf upload NAME OUTPUT_DIR/final` does it after the run";
constexpr std::string_view kAttention = "attention never keeps its scores";
constexpr std::string_view kNoEffect = "it changes no result here";
constexpr std::string_view kFp16 = "fp16 needs loss scaling, which is not implemented";
constexpr std::string_view kMetrics = "metrics go to files in output_dir";

constexpr std::string_view kDevice = "device: {cuda}";
constexpr std::string_view kDeviceMemory = "device_memory: {20GiB}";
constexpr std::string_view kRam = "ram: {32GiB}";
constexpr std::string_view kSsdDir = "ssd_dir: {/nvme/windlass}";
constexpr std::string_view kBudgetDisk = "ssd_dir: /nvme/windlass";
constexpr std::string_view kBudgetRam = "ram: 32GiB";
constexpr std::string_view kModel = "model: {models/Qwen3-0.6B}";
constexpr std::string_view kTrainData = "train_data: {rows.jsonl}";
constexpr std::string_view kEvalData = "eval_data: {rows.jsonl}";
constexpr std::string_view kOutput = "output_dir: {runs/first}";
constexpr std::string_view kLength = "max_length: {1024}";
constexpr std::string_view kBatch = "per_device_train_batch_size: {8}";
constexpr std::string_view kSteps = "max_steps: {100}";
constexpr std::string_view kClip = "max_grad_norm: {1}";
constexpr std::string_view kSave = "save_steps: {500}";
constexpr std::string_view kEvaluate = "eval_steps: {100}";
constexpr std::string_view kLog = "logging_steps: {1}";
constexpr std::string_view kReport = "report_to: [jsonl, tensorboard]";
constexpr std::string_view kLora = "adapter: lora";
constexpr std::string_view kOneLayer = "param_groups: [\"*.layers.31.*\", \"* train=false\"]";
constexpr std::string_view kPlusPairs = "param_groups: [\"*lora_B* learning_rate_scale=16\"]";
constexpr std::string_view kRecompute = "gradient_checkpointing: {auto}";
constexpr std::string_view kObjective = "objective: {dpo}";

constexpr KeyAdvice kAdvice[] = {
    // numbers
    {"bf16", "dtype: bf16"},
    {"bfloat16", "dtype: bf16"},
    {"pure_bf16", "dtype: bf16"},
    {"fp16", "dtype: bf16", "", kFp16},
    {"float16", "dtype: bf16", "", kFp16},
    {"half", "dtype: bf16", "", kFp16},
    {"fp32", "dtype: f32"},
    {"float32", "dtype: f32"},
    {"tf32", "dtype: bf16", "", "products use the numbers of dtype"},
    {"precision", "dtype: {bf16}"},
    {"mixed_precision", "dtype: {bf16}"},
    {"load_in_8bit", "weight_storage: f8"},
    {"load_in_16bit", "weight_storage: as_file"},
    {"quantization_bit", "load_in_4bit: true", "", "weight_storage: f8 has 8 bits"},
    {"bits", "load_in_4bit: true", "", "weight_storage: f8 has 8 bits"},
    // model, rows, output
    {"model_name", kModel},
    {"model_path", kModel},
    {"pretrained_model_name_or_path", kModel},
    {"data_path", kTrainData},
    {"data_files", kTrainData},
    {"dataset_name", kTrainData, "", "rows are read from files"},
    {"dataset_path", kTrainData},
    {"train_files", kTrainData},
    {"val_data", kEvalData},
    {"validation_data", kEvalData},
    {"dataset_text_field", "text_field: {text}"},
    {"validation_split", "val_split: {0.1}"},
    {"test_size", "val_split: {0.1}"},
    {"save_dir", kOutput},
    {"save_path", kOutput},
    {"out_dir", kOutput},
    {"run_name", kOutput, "", "the folder's name is the run's"},
    {"template", "chat_template: auto", "", "auto is the model's own template; a .jinja file replaces it"},
    {"ctx_size", kLength},
    {"n_ctx", kLength},
    {"context_length", kLength},
    {"block_size", kLength},
    {"model_max_length", kLength},
    {"seq_length", kLength},
    {"seq_len", kLength},
    // the update
    {"optim", "method: {adamw}"},
    {"optimizer", "method: {adamw}"},
    {"random_state", "seed: {42}"},
    {"random_seed", "seed: {42}"},
    {"data_seed", "seed: {42}"},
    {"global_batch_size", kBatch, "gradient_accumulation_steps: 1"},
    {"per_device_batch_size", kBatch},
    {"device_batch_size", kBatch},
    {"train_micro_batch_size_per_gpu", kBatch},
    {"per_device_eval_batch_size", "", "", "evaluations take the micro-batches of training"},
    {"eval_batch_size", "", "", "evaluations take the micro-batches of training"},
    {"iters", kSteps},
    {"max_iters", kSteps},
    {"num_iters", kSteps},
    {"num_steps", kSteps},
    {"max_train_steps", kSteps},
    {"warmup", "warmup_steps: {100}"},
    {"lr_warmup_steps", "warmup_steps: {100}"},
    {"scheduler", "lr_scheduler_type: {cosine}"},
    {"grad_clip", kClip},
    {"gradient_clipping", kClip},
    {"gradient_clip_val", kClip},
    {"clip_grad_norm", kClip},
    {"betas", "adam_beta1: 0.9", "adam_beta2: 0.999"},
    {"beta1", "adam_beta1: {0.9}"},
    {"beta2", "adam_beta2: {0.999}"},
    {"neftune_noise_alpha", "", "", "noise on embeddings is not implemented"},
    {"label_smoothing_factor", "", "", "label smoothing is not implemented"},
    // objectives and adapters
    {"stage", kObjective, "", "without it, training is supervised fine-tuning"},
    {"rl", kObjective},
    {"pref_loss", kObjective},
    {"loss_type", kObjective},
    {"beta", "preference_beta: {0.1}"},
    {"lora", kLora},
    {"use_lora", kLora},
    {"use_peft", kLora},
    {"qlora", "adapter: qlora"},
    {"full_finetuning", "adapter: none", "", "all parameters are trained unless adapter names one"},
    {"fine_tune_type", "adapter: {lora}"},
    {"adapter_path", "adapter: {runs/lora/final}"},
    {"rank", "lora_r: {16}"},
    {"lora_target_linear", "lora_target_modules: all-linear"},
    {"loraplus_lr_ratio", kPlusPairs},
    {"freeze_trainable_layers", kOneLayer, "", "this trains one layer"},
    {"freeze_trainable_modules", "param_groups: [\"*.mlp.*\", \"* train=false\"]"},
    {"unfrozen_parameters", kOneLayer, "", "patterns are globs"},
    // budgets and devices
    {"gpu_memory", kDeviceMemory},
    {"gpu_mem", kDeviceMemory},
    {"max_memory", kDeviceMemory, kBudgetRam},
    {"vram", kDeviceMemory},
    {"max_vram", kDeviceMemory},
    {"gpu", kDevice},
    {"gpus", kDevice, "", kOneDevice},
    {"num_gpus", kDevice, "", kOneDevice},
    {"n_gpu", kDevice, "", kOneDevice},
    {"num_processes", kDevice, "", kOneDevice},
    {"nproc_per_node", kDevice, "", kOneDevice},
    {"gpu_id", "device: cuda:0"},
    {"main_gpu", "device: cuda:0"},
    {"cpu", "device: cpu"},
    {"use_cpu", "device: cpu"},
    {"no_cuda", "device: cpu"},
    {"max_ram", kRam},
    {"cpu_ram", kRam},
    {"host_memory", kRam},
    {"disk", kSsdDir},
    {"nvme", kSsdDir},
    {"nvme_dir", kSsdDir},
    {"offload_folder", kSsdDir},
    {"disk_space", "ssd_space: {100GiB}"},
    {"deepspeed", kBudgetDisk, kBudgetRam, kPlaced},
    {"fsdp", kBudgetDisk, kBudgetRam, kPlaced},
    {"fsdp_config", kBudgetDisk, kBudgetRam, kPlaced},
    {"device_map", kBudgetDisk, kBudgetRam, kPlaced},
    {"n_gpu_layers", kDeviceMemory, "", kPlaced},
    {"gpu_layers", kDeviceMemory, "", kPlaced},
    {"ngl", kDeviceMemory, "", kPlaced},
    {"use_gradient_checkpointing", kRecompute},
    {"grad_checkpoint", kRecompute},
    {"activation_checkpointing", kRecompute},
    // output
    {"do_train", "", "", "", "windlass train run.yaml"},
    {"do_eval", kEvalData, kEvaluate},
    {"do_predict", "", "", "", "windlass generate MODEL --prompt TEXT"},
    {"save_strategy", kSave},
    {"save_every", kSave},
    {"steps_per_save", kSave},
    {"eval_strategy", kEvaluate},
    {"evaluation_strategy", kEvaluate},
    {"eval_every", kEvaluate},
    {"steps_per_eval", kEvaluate},
    {"log_every", kLog},
    {"log_interval", kLog},
    {"steps_per_report", kLog},
    {"logging_strategy", kLog},
    {"sample_every", "sample_steps: {100}"},
    {"early_stopping", "early_stopping_patience: {3}"},
    {"resume_from", "resume: auto", "", "the run in output_dir is continued"},
    {"plot_loss", "", "", "every run draws OUTPUT_DIR/loss.svg"},
    {"wandb_project", kReport, "", kMetrics},
    {"use_wandb", kReport, "", kMetrics},
    {"logging_dir", kReport, "", "event files go to output_dir"},
    {"push_to_hub", "", "", kNoUpload},
    {"hub_model_id", "", "", kNoUpload},
    {"hub_token", "", "", kNoUpload},
    {"hf_token", "", "", "nothing is downloaded; `hf download ID` fills the cache that is read"},
    // what follows from elsewhere
    {"flash_attention", "", "", kAttention},
    {"flash_attn", "", "", kAttention},
    {"attn_implementation", "", "", kAttention},
    {"trust_remote_code", "", "", "no code of a model is ever run"},
    {"torch_compile", "", "", kNoEffect},
    {"group_by_length", "", "", "rows are padded to one of four lengths"},
    {"dataloader_num_workers", "", "", kNoEffect},
    {"remove_unused_columns", "", "", kNoEffect},
    {"ddp_find_unused_parameters", "", "", kOneDevice},
    {"local_rank", "", "", kOneDevice},
};

struct Pair {
    std::string key, value;
};

// "ram: {32GiB}" with what was written in place of the example, where the key takes it.
Pair setting_of(std::string_view setting, const ConfigEntry& entry) {
    const size_t colon = setting.find(": ");
    Pair made{std::string(setting.substr(0, colon)), std::string(setting.substr(colon + 2))};
    if (!made.value.starts_with('{')) return made;
    made.value = made.value.substr(1, made.value.size() - 2);
    const ConfigKey* const key = find_config_key(made.key);
    if (entry.is_list || entry.values.size() != 1 || entry.values[0].empty()) return made;
    const bool is_word_of_flag = entry.values[0] == "true" || entry.values[0] == "false";
    Config scratch;
    const ConfigEntry written{.key = made.key, .values = entry.values, .where = entry.where};
    // Any word is a text: only names of folders and of fields are taken over.
    const bool is_any_text = std::holds_alternative<std::string Config::*>(key->field) && key->choices.empty();
    const bool is_taken = !is_any_text || made.key.ends_with("_dir") || made.key.ends_with("_field");
    const bool is_list = std::holds_alternative<std::vector<std::string> Config::*>(key->field);
    if (is_taken && !is_list && !is_word_of_flag && assign_config_value(*key, written, scratch).empty())
        made.value = entry.values[0];
    return made;
}

std::string typed(const Pair& setting, bool as_flag) {
    if (!as_flag) return fmt::format("{}: {}", setting.key, setting.value);
    if (setting.value == "true" || setting.key == "resume") return config_flag(setting.key);
    return fmt::format("{} {}", config_flag(setting.key), shell_word(setting.value));
}

}  // namespace

std::span<const KeyAdvice> key_advices() {
    return kAdvice;
}

const KeyAdvice* find_key_advice(std::string_view name) {
    std::string wanted(name);
    std::ranges::replace(wanted, '-', '_');
    const std::span<const KeyAdvice> all = key_advices();
    const auto found = std::ranges::find(all, wanted, &KeyAdvice::key);
    return found == all.end() ? nullptr : &*found;
}

std::string_view advised_key(const KeyAdvice& advice) {
    return advice.setting.substr(0, advice.setting.find(':'));
}

std::string typed_advice(const KeyAdvice& advice, const ConfigEntry& entry) {
    if (!advice.command.empty()) return std::string(advice.command);
    if (advice.setting.empty()) return fmt::format("leave {} out", entry.key);
    const bool as_flag = entry.where.starts_with("--");
    std::string text = typed(setting_of(advice.setting, entry), as_flag);
    if (!advice.and_setting.empty())
        text += (as_flag ? " " : " and ") + typed(setting_of(advice.and_setting, entry), as_flag);
    return text;
}

}  // namespace windlass
