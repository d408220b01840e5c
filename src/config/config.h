// config.h: everything a user may say about a run, under the names that Hugging Face users know.
//
// Flat keys. A key a_b is the same in a YAML file (a_b: x), on the command line (--a-b x, --a_b x, a_b=x) and in the
// environment (WINDLASS_A_B=x). Flags win over a_b=x, that over the file, that over the environment, that over the
// preset (preset.h). One table (config_keys.h) drives parsing, help, docs/guide/config.md and run.yaml.
//
// What the values mean for a model, a machine and a plan is decided elsewhere; here they are only read and compared.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"

namespace windlass {

struct MethodOptions;

// A number of bytes as written, "4GiB" or "80%"; empty: not limited. base/units.h resolves it.
struct ByteLimit {
    std::string text;
    bool operator==(const ByteLimit&) const = default;
};

// What AdamW's steps depend on besides rows and rates: changed in a resumed run only where that is allowed by name.
inline constexpr std::array<std::string_view, 5> kUpdateSettings = {"adam_beta1", "adam_beta2", "adam_epsilon",
                                                                    "weight_decay", "max_grad_norm"};

// The processor's or the device's kernels and the library of their products, where a run resumes with others: a name of
// allow_changed_settings that is no key.
inline constexpr std::string_view kKernelsSetting = "kernels";

struct Config {
    // model and data
    std::string model;
    std::vector<std::string> ignore_config_keys;  // of the model's config.json
    std::string output_dir;
    std::vector<std::string> train_data;
    std::vector<std::string> eval_data;
    double val_split = 0.0;  // below 1: share of the rows; from 1 on: number of rows
    std::string task;        // whose rows these are: a name or a file (task/task.h); empty: rows as they are
    std::optional<int64_t> train_samples, eval_samples;
    int64_t max_length = 1024;
    std::string truncation = "auto";
    bool packing = false;
    bool train_on_prompt = false;
    bool add_eos = true;
    bool skip_malformed = false;
    std::string document_separator;
    std::string text_field = "text", prompt_field = "prompt", completion_field = "completion";
    std::string instruction_field = "instruction", input_field = "input", output_field = "output";
    std::string messages_field = "messages";
    std::string chat_template = "auto";  // the model's own; none; or a file
    std::string template_date;           // year-month-day; empty: today's, which a run keeps
    std::string train_turns = "assistant";
    std::string cache_dir;  // of tokenised rows; empty: $XDG_CACHE_HOME/windlass/tokens

    // method
    std::string preset;  // whose keys lie below all others: a name or a file
    std::string method = "adamw";
    std::string objective = "loss";
    double preference_beta = 0.1;
    double num_train_epochs = 3.0;
    std::optional<int64_t> max_steps;
    std::optional<int64_t> per_device_train_batch_size;
    int64_t gradient_accumulation_steps = 1;
    double learning_rate = 2e-5;
    std::string lr_scheduler_type = "linear";
    double min_lr_ratio = 0.0;
    int64_t lr_num_cycles = 1;
    double lr_power = 1.0;
    double lr_decay_ratio = 0.1;
    double warmup_ratio = 0.0;
    int64_t warmup_steps = 0;
    double weight_decay = 0.0;
    double adam_beta1 = 0.9;
    double adam_beta2 = 0.999;
    double adam_epsilon = 1e-8;
    double max_grad_norm = 1.0;
    std::vector<std::string> freeze, param_groups;  // param_group_text.h
    std::string adapter;                            // a kind, or a folder with one; empty: none
    int64_t lora_r = 16;
    double lora_alpha = 32;
    bool use_rslora = false, use_dora = false;
    std::vector<std::string> lora_target_modules = {"all-linear"};
    std::vector<std::string> modules_to_save = {};
    std::vector<std::string> rank_pattern = {}, alpha_pattern = {};
    std::vector<std::string> trainable_token_indices = {};
    double lora_dropout = 0.0;
    std::optional<int64_t> lsp_d;  // nothing: as wide as the bytes below allow, or half of the model's width
    int64_t lsp_r = 8;
    ByteLimit lsp_host_bytes, lsp_link_bytes;
    std::optional<int64_t> lsp_refresh;  // nothing: as phase_settings says
    int64_t lsp_samples = 16;
    int64_t lsp_learn = 10;
    bool load_in_4bit = false;  // weight_storage says it
    double zo_eps = 1e-3;
    std::optional<int64_t> directions = 1;  // nothing: the planner chooses
    std::string noise = "gaussian";
    int64_t noise_rank = 2;
    int64_t noise_window = 50;
    std::string noise_kept = "right";
    std::string merge_updates = "each_step";
    double scalar_clip = 0.0;
    std::string zo_optimizer = "sgd";
    int64_t replay_window = 16;
    std::string zo_estimator = "two_sided";
    double layer_drop = 0.0;
    double sparse_share = 1.0;
    int64_t seed = 42;

    // numbers, memory, disk
    std::string dtype = "auto";
    std::string weight_storage = "as_file";
    std::string state_format = "auto";
    std::string gradient_format = "f32";
    std::string gradient_checkpointing = "auto";
    std::string policy = "auto";
    std::string update_time = "auto";
    std::optional<int64_t> writeback_steps;
    std::string device = "cpu";
    ByteLimit device_memory;         // empty: device_memory_share() of it
    ByteLimit link_rate, disk_rate;  // bytes a second
    ByteLimit ram{"80%"};
    std::string ssd_dir;
    ByteLimit ssd_space{"90%"};
    ByteLimit ssd_writes{""};  // of a whole run
    std::optional<int64_t> threads;
    std::string machine;  // to plan for: a file or a profile; empty: this one

    // rhythm and output
    int64_t logging_steps = 1;
    std::optional<int64_t> eval_steps;
    std::optional<int64_t> save_steps = 500;
    std::optional<int64_t> save_total_limit;
    bool save_first_step = false;
    std::optional<int64_t> export_steps;
    bool load_best_model_at_end = false;
    std::string metric_for_best_model = "loss";
    std::string greater_is_better = "auto";
    std::optional<int64_t> early_stopping_patience;
    double early_stopping_threshold = 0.0;
    std::vector<std::string> sample_prompts;
    std::optional<int64_t> sample_steps;
    int64_t sample_max_new_tokens = 64;
    std::optional<double> loss_watchdog_threshold;
    int64_t loss_watchdog_patience = 3;
    std::vector<std::string> report_to = {"jsonl", "tensorboard"};
    std::string resume;       // "", "auto" or a step
    std::string branch_from;  // "", "RUN" or "RUN@STEP"
    std::vector<std::string> allow_changed_settings;
    bool overwrite = false;
    std::string written_in;    // the configuration file that was read; no key. Empty: none
    std::string adapter_kind;  // of the adapter that `adapter` is the folder of; no key. Empty: not known, or no folder

    // Keys that are set explicitly: their names, not their aliases.
    std::set<std::string, std::less<>> given;
    bool was_given(std::string_view key) const { return given.contains(key); }
};

// The same with another method, and with its defaults for what is not set: its learning rate, and whether gradients
// are clipped.
Config with_method(Config config, std::string_view method);

// One key as the user wrote it.
struct ConfigEntry {
    std::string key;                  // as written, aliases included; '-' reads as '_'
    std::vector<std::string> values;  // one, or the members of a list
    bool is_list = false;
    bool is_null = false;
    std::string where;         // "run.yaml:4", "--lr", "WINDLASS_SEED"
    std::string problem = {};  // with its form, which no key takes; then there are no values
    bool of_run = false;       // in a run's own run.yaml
};

// The layers, lowest first, each in the order in which it was written.
struct ConfigSources {
    std::vector<ConfigEntry> preset, environment, file, overrides, flags;
    std::string file_path;
    std::vector<std::string> warnings;  // of variables WINDLASS_* that set no key
};

inline constexpr int64_t kConfigBytesMax = int64_t{1} << 20;

// Splits the words after a verb into flags, overrides and at most one file, which is read, as is the preset. Words in
// `own` (such as
// "--json") are the verb's and must have been taken out before. Problems that are only about form (a file that is no
// YAML, a flag without a value) throw UserError(usage).
ConfigSources read_config_sources(FileSystem& files, std::span<const std::string> words);
std::vector<ConfigEntry> read_config_file(FileSystem& files, const std::string& path);

// The verb decides which keys must be there.
enum class ConfigUse { plan, train, evaluate, generate };

struct ReadConfig {
    Config config;
    std::vector<std::string> notes;  // aliases that were read, keys without effect
};

// Called with what all layers say: sets `model` to the folder that it means, and `adapter` and `adapter_kind` where
// that is an adapter's.
using PlaceModel = std::function<void(Config&)>;

// Puts the layers together. Defaults that depend on another key follow last, after `place`, so that two ways to say the
// same give the same run. Every problem found is in the one UserError(usage): unknown keys with the nearest name,
// values of the wrong kind, contradictions between keys; what `place` throws comes after them.
ReadConfig make_config(const ConfigSources& sources, ConfigUse use, const PlaceModel& place = {});

// Config::adapter is the name of a kind, not a folder.
bool is_adapter_name(std::string_view adapter);

// A configuration with these keys set from their texts. UserError(storage, where) for what is no key, or no
// value of one.
Config config_of_texts(const std::map<std::string, std::string>& settings, std::string_view where);

// What the method is told. `auto` is what it begins with: the most exact state, the least directions.
MethodOptions method_options(const Config& config);

// A line that begins so is in a run's own run.yaml; the format's number follows (run_place.h).
inline constexpr std::string_view kRunConfigHead = "# Every setting of this run, in format ";
// run.yaml: every key with its value and what it means; reads back as the same Config.
std::string config_to_yaml(const Config& config);
// docs/guide/config.md.
std::string config_reference();
// The keys as --flags, grouped and aligned, for --help. `columns`: width of the terminal.
std::string config_help(int columns);

}  // namespace windlass
