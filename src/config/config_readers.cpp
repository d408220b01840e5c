#include "config/config_readers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace windlass {
namespace {

struct NamedReader {
    std::string_view verb;
    ConfigReader reader;
};
constexpr NamedReader kReaders[] = {{"plan", ConfigReader::plan}, {"train", ConfigReader::train},
                                    {"eval", ConfigReader::eval}, {"generate", ConfigReader::generate},
                                    {"chat", ConfigReader::chat}, {"data", ConfigReader::data}};

constexpr ConfigReaders bit(ConfigReader reader) {
    return static_cast<ConfigReaders>(reader);
}
constexpr ConfigReaders kOfRun = bit(ConfigReader::plan) | bit(ConfigReader::train);
constexpr ConfigReaders kOfEval = bit(ConfigReader::eval), kOfData = bit(ConfigReader::data);
constexpr ConfigReaders kOfTalk = bit(ConfigReader::generate) | bit(ConfigReader::chat);
constexpr ConfigReaders kOfAll = kOfRun | kOfEval | kOfTalk | kOfData;

struct KeysOfReaders {
    ConfigReaders readers;
    std::vector<std::string_view> keys;
};

// What a run learns, and how.
std::vector<std::string_view> learned_keys() {
    return {"output_dir",
            "val_split",
            "train_samples",
            "packing",
            "method",
            "num_train_epochs",
            "max_steps",
            "gradient_accumulation_steps",
            "preference_beta",
            "learning_rate",
            "lr_scheduler_type",
            "min_lr_ratio",
            "lr_num_cycles",
            "lr_power",
            "lr_decay_ratio",
            "warmup_ratio",
            "warmup_steps",
            "weight_decay",
            "adam_beta1",
            "adam_beta2",
            "adam_epsilon",
            "max_grad_norm",
            "freeze",
            "param_groups",
            "lora_r",
            "lora_alpha",
            "use_rslora",
            "use_dora",
            "lora_target_modules",
            "modules_to_save",
            "rank_pattern",
            "alpha_pattern",
            "trainable_token_indices",
            "lora_dropout",
            "lsp_d",
            "lsp_r",
            "lsp_host_bytes",
            "lsp_link_bytes",
            "lsp_refresh",
            "lsp_samples",
            "lsp_learn",
            "zo_eps",
            "directions",
            "noise",
            "noise_rank",
            "noise_window",
            "noise_kept",
            "merge_updates",
            "scalar_clip",
            "zo_optimizer",
            "replay_window",
            "zo_estimator",
            "layer_drop",
            "sparse_share"};
}

// How it is placed, and what it writes.
std::vector<std::string_view> placed_keys() {
    return {"state_format",
            "gradient_format",
            "gradient_checkpointing",
            "update_time",
            "writeback_steps",
            "ssd_writes",
            "logging_steps",
            "eval_steps",
            "save_steps",
            "save_total_limit",
            "save_first_step",
            "export_steps",
            "load_best_model_at_end",
            "metric_for_best_model",
            "greater_is_better",
            "early_stopping_patience",
            "early_stopping_threshold",
            "sample_prompts",
            "sample_steps",
            "sample_max_new_tokens",
            "loss_watchdog_threshold",
            "loss_watchdog_patience",
            "report_to",
            "resume",
            "branch_from",
            "allow_changed_settings",
            "overwrite"};
}

// A new key goes into one of these lists.
const std::vector<KeysOfReaders>& table() {
    static const std::vector<KeysOfReaders> lists = {
        {kOfAll, {"model", "ignore_config_keys", "adapter", "preset", "chat_template", "template_date"}},
        {kOfRun | kOfEval | kOfTalk,
         {"seed", "dtype", "weight_storage", "load_in_4bit", "policy", "device", "device_memory", "link_rate",
          "disk_rate", "ram", "ssd_dir", "ssd_space", "threads"}},
        {kOfRun | kOfEval | kOfData,
         {"train_data", "truncation", "train_on_prompt", "add_eos", "skip_malformed", "document_separator",
          "train_turns", "messages_field", "text_field", "prompt_field", "completion_field", "instruction_field",
          "input_field", "output_field", "objective"}},
        {kOfRun | kOfEval | kOfData | bit(ConfigReader::chat), {"max_length"}},
        {kOfRun | kOfEval, {"eval_data", "task", "eval_samples", "cache_dir", "per_device_train_batch_size"}},
        {bit(ConfigReader::plan), {"machine"}},
        {kOfRun, learned_keys()},
        {kOfRun, placed_keys()}};
    return lists;
}

}  // namespace

ConfigReaders reader_of_verb(std::string_view verb) {
    for (const NamedReader& each : kReaders)
        if (each.verb == verb) return bit(each.reader);
    return 0;
}

ConfigReaders readers_of_key(std::string_view key) {
    for (const KeysOfReaders& list : table())
        if (std::ranges::find(list.keys, key) != list.keys.end()) return list.readers;
    WINDLASS_CHECK(false, "the key {} has no readers", key);
}

std::vector<std::string_view> verbs_of_readers(ConfigReaders readers) {
    std::vector<std::string_view> verbs;
    for (const NamedReader& each : kReaders)
        if ((readers & bit(each.reader)) != 0) verbs.push_back(each.verb);
    return verbs;
}

std::string readers_text(ConfigReaders readers) {
    if (readers == kOfAll) return "all";
    return fmt::format("{}", fmt::join(verbs_of_readers(readers), ", "));
}

}  // namespace windlass
