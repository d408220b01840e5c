// Dumps of transformers' TrainingArguments, and configurations of TRL's commands, which are those with a model, rows
// and an adapter.
#include "config/foreign/draft.h"

namespace windlass {
namespace {

constexpr std::string_view kRowsFromFiles =
    "rows are read from files: hf download DATASET --repo-type dataset, then train_data";

void take_peft(ForeignDraft& draft, const ForeignKey& key) {
    if (key.value.is_true()) draft.set("adapter", "lora", key.name);
}

constexpr ForeignRule kRules[] = {
    {.name = "use_peft", .ours = "adapter", .take = take_peft},
    {.name = "model_name_or_path", .ours = "model"},
    {.name = "per_device_train_batch_size", .ours = "per_device_train_batch_size"},
    {.name = "num_train_epochs", .ours = "num_train_epochs"},
    {.name = "lr_scheduler_type", .ours = "lr_scheduler_type"},
    {.name = "overwrite_output_dir", .ours = "overwrite"},
    {.name = "max_length", .ours = "max_length"},
    {.name = "max_seq_length", .ours = "max_length"},
    {.name = "packing", .ours = "packing"},
    {.name = "dataset_text_field", .ours = "text_field"},
    {.name = "lora_r", .ours = "lora_r"},
    {.name = "lora_alpha", .ours = "lora_alpha"},
    {.name = "lora_dropout", .ours = "lora_dropout"},
    {.name = "lora_target_modules", .ours = "lora_target_modules"},
    {.name = "lora_modules_to_save", .ours = "modules_to_save"},
    {.name = "beta", .ours = "preference_beta"},
    {.name = "dataset_name", .reason = kRowsFromFiles},
    {.name = "dataset_train_split", .reason = kRowsFromFiles},
    {.name = "dataset_test_split", .reason = kRowsFromFiles},
    {.name = "torch_dtype", .ours = "dtype"},
    {.name = "do_train", .reason = "windlass train always trains"},
    {.name = "do_eval", .reason = "a run evaluates where there are rows for it"},
    {.name = "do_predict", .reason = "windlass generate and windlass eval write and judge answers"},
};

constexpr std::string_view kMarks[] = {"model_name_or_path", "dataset_name",           "dataset_train_split",
                                       "use_peft",           "logging_nan_inf_filter", "dataloader_drop_last",
                                       "past_index",         "jit_mode_eval",          "ddp_bucket_cap_mb",
                                       "ignore_data_skip",   "skip_memory_metrics",    "auto_find_batch_size",
                                       "fp16_opt_level"};
constexpr ForeignDefault kDefaults[] = {{"learning_rate", "5e-5"}, {"per_device_train_batch_size", "8"}};

void finish(ForeignDraft& draft) {
    if (draft.config().adapter != "lora") {
        constexpr const char* kReason = "no new adapter is made";
        for (const char* const key : {"lora_r", "lora_alpha", "lora_target_modules", "use_dora"})
            draft.unset(key, key, kReason);
        draft.unset("modules_to_save", "lora_modules_to_save", kReason);
    }
    if (draft.config().lora_dropout > 0) draft.unset("lora_dropout", "lora_dropout", "dropout is not implemented");
    draft.unset("preference_beta", "beta", "objective says which loss of preferences is learned");
}

}  // namespace

const ForeignTool& transformers() {
    static const ForeignTool tool{"transformers", kMarks, kRules, kDefaults, finish};
    return tool;
}

}  // namespace windlass
