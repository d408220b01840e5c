// Finding keys by what people write.
#include "base/error.h"
#include "base/nearest.h"
#include "config/config_keys.h"

namespace windlass {
namespace {

struct Advice {
    std::string_view key, text;
};
constexpr Advice kAdvice[] = {
    {"bf16", "dtype: bf16"},
    {"fp16", "dtype: bf16; fp16 with loss scaling is not implemented"},
    {"fp32", "dtype: f32"},
    {"optim", "method: adamw"},
    {"optimizer", "method: adamw"},
    {"deepspeed", "ssd_dir and ram: the placement follows from the budgets"},
    {"fsdp", "ssd_dir and ram: the placement follows from the budgets"},
    {"load_in_8bit", "weight_storage: f8"},
    {"quantization_bit", "load_in_4bit: true, or weight_storage: f8"},
    {"lora_target_linear", "lora_target_modules: all-linear, which is the default"},
    {"loraplus_lr_ratio", "param_groups: [\"*lora_B* learning_rate_scale=16\"]"},
    {"use_dora", "adapter: lora; DoRA is not implemented"},
    {"lora_modules_to_save", "adapter: lora; other modules are not trained together with it"},
    {"additional_target", "adapter: lora; other modules are not trained together with it"},
    {"stage", "nothing here: training is always supervised fine-tuning"},
    {"do_train", "windlass train, which always trains"},
    {"do_eval", "eval_data or val_split, with eval_steps"},
    {"template", "chat_template: auto, which is the model's own, or a .jinja file"},
    {"plot_loss", "nothing here: every run draws OUTPUT_DIR/loss.svg"},
    {"flash_attention", "nothing here: attention never holds its scores whole"},
    {"wandb_project", "report_to: [jsonl, tensorboard]"},
    {"logging_dir", "report_to: [jsonl, tensorboard], which writes event files into output_dir"},
    {"run_name", "output_dir: its name is the run's"},
    {"freeze_trainable_layers", "param_groups: [\"*.layers.31.*\", \"* train=false\"], which trains one layer"},
    {"freeze_trainable_modules", "param_groups: [\"*.mlp.*\", \"* train=false\"]"},
    {"unfrozen_parameters", "param_groups: [\"*.layers.31.*\", \"* train=false\"]; patterns are globs"},
    {"gpu_memory", "ram: this release computes on the CPU"},
    {"exact_inplace", "zeroth_order without it, whose weights do not drift; earlier versions took MeZO's roundings"},
};

struct RetiredKey {
    std::string_view key, without_effect;
};
constexpr RetiredKey kRetired[] = {{"exact_inplace", "false"}};

std::string with_underscores(std::string_view name) {
    std::string result(name);
    std::replace(result.begin(), result.end(), '-', '_');
    return result;
}

}  // namespace

const ConfigKey* find_config_key(std::string_view name) {
    const std::string wanted = with_underscores(name);
    for (const ConfigKey& key : config_keys()) {
        if (key.name == wanted) return &key;
        if (std::find(key.aliases.begin(), key.aliases.end(), wanted) != key.aliases.end()) return &key;
    }
    return nullptr;
}

std::string_view nearest_config_key(std::string_view name) {
    std::vector<std::string_view> candidates;
    for (const ConfigKey& key : config_keys()) candidates.push_back(key.name);
    for (const ConfigKey& key : config_keys())
        candidates.insert(candidates.end(), key.aliases.begin(), key.aliases.end());
    return nearest_name(with_underscores(name.substr(0, 64)), candidates);
}

std::string_view config_key_advice(std::string_view name) {
    const std::string wanted = with_underscores(name);
    for (const Advice& advice : kAdvice) {
        if (advice.key == wanted) return advice.text;
    }
    return "";
}

bool is_retired_without_effect(const ConfigEntry& entry) {
    const std::string wanted = with_underscores(entry.key);
    return std::ranges::any_of(kRetired, [&](const RetiredKey& retired) {
        return retired.key == wanted && entry.problem.empty() && !entry.is_list &&
               entry.values == std::vector<std::string>{std::string(retired.without_effect)};
    });
}

std::string config_flag(std::string_view name) {
    std::string flag = fmt::format("--{}", name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    return flag;
}

}  // namespace windlass
