// Keys that LLaMA-Factory and axolotl both have from transformers, and what several of them say together.
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "config/config_best.h"
#include "config/foreign/draft.h"
#include "method/recipe.h"

namespace windlass {
namespace {

constexpr std::string_view kPlaced = "where things live follows from ram, device_memory and ssd_dir";
constexpr std::string_view kNoEffect = "it does not change the training";
constexpr std::string_view kResumes = "a run resumes with: windlass train OUTPUT_DIR/run.yaml --resume";
constexpr std::string_view kByMetric = "the metric says it";
constexpr std::string_view kNoReport = "metrics go to metrics.jsonl, TensorBoard files and loss.svg in output_dir";
constexpr std::string_view kNoHub = "nothing is sent anywhere";

double number(std::string_view text) {
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

// Below one transformers takes it for a share.
void take_warmup(ForeignDraft& draft, const ForeignKey& key) {
    const double steps = number(key.value.text);
    if (steps > 0) draft.set(steps < 1 ? "warmup_ratio" : "warmup_steps", key.value, key.name);
}

void take_warmup_ratio(ForeignDraft& draft, const ForeignKey& key) {
    if (number(key.value.text) <= 0) return;
    if (number(draft.text("warmup_steps")) > 0)
        return draft.drop(key.name, "warmup_steps is given too, and overrides it");
    draft.set("warmup_ratio", key.value, key.name);
}

void take_max_steps(ForeignDraft& draft, const ForeignKey& key) {
    if (number(key.value.text) > 0) draft.set("max_steps", key.value, key.name);
}

void take_resume(ForeignDraft& draft, const ForeignKey& key) {
    if (!key.value.is_false()) draft.drop(key.name, std::string(kResumes));
}

void take_bf16(ForeignDraft& draft, const ForeignKey& key) {
    if (!key.value.is_false() && !draft.is_set("dtype")) draft.set("dtype", "bf16", key.name);
}

void take_fp16(ForeignDraft& draft, const ForeignKey& key) {
    if (key.value.is_true())
        draft.set("dtype", "bf16", key.name,
                  "was fp16, whose loss scaling is not implemented; bf16 takes as much room");
}

struct Optimizer {
    std::string_view name, state_format, remark;
};
constexpr Optimizer kAdams[] = {
    {"adamw_torch", "", ""},
    {"adamw_torch_fused", "", ""},
    {"adamw_hf", "", ""},
    {"adamw_apex_fused", "", ""},
    {"adamw_anyprecision", "", ""},
    {"paged_adamw", "fp32", "pages are the plan's business"},
    {"paged_adamw_32bit", "fp32", "pages are the plan's business"},
    {"adamw_8bit", "int8", "moments in blocks of 8 bits, rounded randomly; bitsandbytes has other blocks"},
    {"adamw_bnb_8bit", "int8", "moments in blocks of 8 bits, rounded randomly; bitsandbytes has other blocks"},
    {"paged_adamw_8bit", "int8", "moments in blocks of 8 bits, rounded randomly; bitsandbytes has other blocks"},
    {"adamw_torch_8bit", "int8", "moments in blocks of 8 bits, rounded randomly"},
};

void take_optimizer(ForeignDraft& draft, const ForeignKey& key) {
    const std::string& name = key.value.text;
    if (std::ranges::any_of(all_methods(), [&](const Method* method) { return method->name == name; }))
        return draft.set("method", key.value, key.name);
    for (const Optimizer& each : kAdams) {
        if (each.name != name) continue;
        if (!each.state_format.empty())
            draft.set("state_format", std::string(each.state_format), key.name, std::string(each.remark));
        return;
    }
    draft.drop(key.name, fmt::format("{} is not implemented: the run uses {}", name, draft.config().method));
}

void take_scheduler_settings(ForeignDraft& draft, const ForeignKey& key) {
    for (const auto& [name, value] : key.value.members) {
        const std::string from = fmt::format("{}.{}", key.name, name);
        if (name == "min_lr_rate")
            draft.set("min_lr_ratio", value, from);
        else if (name == "num_cycles" && draft.text("lr_scheduler_type") == "cosine_with_restarts")
            draft.set("lr_num_cycles", value, from);
        else
            draft.drop(from, "a schedule has min_lr_ratio, lr_num_cycles, lr_power and lr_decay_ratio");
    }
}

void take_metric(ForeignDraft& draft, const ForeignKey& key) {
    if (key.value.text == "loss" || key.value.text == "eval_loss")
        return draft.set("metric_for_best_model", key.value, key.name);
    draft.drop(key.name, fmt::format("evaluations report the loss, and {} is not a score of a task: the loss is used",
                                     key.value.text));
}

void take_greater(ForeignDraft& draft, const ForeignKey& key) {
    if (key.value.is_true()) draft.drop(key.name, std::string(kByMetric));
}

void take_report(ForeignDraft& draft, const ForeignKey& key) {
    for (const std::string& name : key.value.texts()) {
        if (name != "tensorboard" && name != "none" && name != "all") draft.drop(key.name, std::string(kNoReport));
    }
}

void take_save_strategy(ForeignDraft& draft, const ForeignKey& key) {
    if (key.value.text == "no" || key.value.text == "false") return draft.set("save_steps", ForeignValue{}, key.name);
    if (key.value.text != "steps" && key.value.text != "best")
        draft.drop(key.name, "checkpoints are saved each save_steps: give a number of steps");
}

void take_save_steps(ForeignDraft& draft, const ForeignKey& key) {
    if (draft.value("save_strategy").is_false() && draft.value("save_strategy").kind == ForeignValue::Kind::scalar)
        return;
    if (number(key.value.text) < 1)
        return draft.drop(key.name, "a share of a run is not supported here: give a number of steps");
    draft.set("save_steps", key.value, key.name);
}

void take_eval_strategy(ForeignDraft& draft, const ForeignKey& key) {
    if (key.value.text == "epoch") draft.drop(key.name, std::string(kEachSteps));
}

void take_eval_steps(ForeignDraft& draft, const ForeignKey& key) {
    for (const char* const strategy : {"eval_strategy", "evaluation_strategy"}) {
        const ForeignValue& said = draft.value(strategy);
        if (said.kind == ForeignValue::Kind::scalar && said.is_false()) return;
    }
    if (number(key.value.text) < 1)
        return draft.drop(key.name, "a share of a run is not supported here: give a number of steps");
    draft.set("eval_steps", key.value, key.name);
}

constexpr ForeignRule same(std::string_view name) {
    return {.name = name, .ours = name};
}
// With `take`, only some of its values are left out for this reason.
constexpr ForeignRule gone(std::string_view name, std::string_view reason,
                           void (*take)(ForeignDraft&, const ForeignKey&) = nullptr) {
    return {.name = name, .reason = reason, .take = take};
}
constexpr ForeignRule by(std::string_view name, std::string_view ours, void (*take)(ForeignDraft&, const ForeignKey&)) {
    return {.name = name, .ours = ours, .take = take};
}

constexpr ForeignRule kRules[] = {
    same("output_dir"),
    same("logging_steps"),
    same("save_total_limit"),
    same("gradient_accumulation_steps"),
    same("learning_rate"),
    same("weight_decay"),
    same("adam_beta1"),
    same("adam_beta2"),
    same("adam_epsilon"),
    same("max_grad_norm"),
    same("seed"),
    same("use_rslora"),
    same("use_dora"),
    same("load_best_model_at_end"),
    same("early_stopping_patience"),
    by("metric_for_best_model", "metric_for_best_model", take_metric),
    gone("greater_is_better", kByMetric, take_greater),
    by("max_steps", "max_steps", take_max_steps),
    by("warmup_steps", "warmup_steps, warmup_ratio", take_warmup),
    by("warmup_ratio", "warmup_ratio", take_warmup_ratio),
    by("lr_scheduler_kwargs", "min_lr_ratio, lr_num_cycles, lr_scheduler_type", take_scheduler_settings),
    by("bf16", "dtype", take_bf16),
    by("fp16", "dtype", take_fp16),
    by("optim", "method, state_format", take_optimizer),
    by("optimizer", "method, state_format", take_optimizer),
    gone("report_to", kNoReport, take_report),
    by("save_strategy", "save_steps", take_save_strategy),
    by("save_steps", "save_steps", take_save_steps),
    gone("eval_strategy", kEachSteps, take_eval_strategy),
    gone("evaluation_strategy", kEachSteps, take_eval_strategy),
    by("eval_steps", "eval_steps", take_eval_steps),
    gone("resume_from_checkpoint", kResumes, take_resume),
    gone("optim_args", "the update has adam_beta1, adam_beta2, adam_epsilon and weight_decay"),
    gone("optim_target_modules", "GaLore and its like are not implemented; lsp is a preset that trains in a subspace"),
    gone("deepspeed", kPlaced),
    gone("fsdp", kPlaced),
    gone("fsdp_config", kPlaced),
    gone("fsdp_version", kPlaced),
    gone("ddp_timeout", "one machine trains"),
    gone("ddp_find_unused_parameters", "one machine trains"),
    gone("local_rank", "one machine trains"),
    gone("gradient_checkpointing", "what is kept and what is computed again is the plan's choice"),
    gone("gradient_checkpointing_kwargs", "what is kept and what is computed again is the plan's choice"),
    gone("tf32", "products are in dtype, with sums in f32"),
    gone("flash_attention", "attention never holds its scores whole"),
    gone("torch_compile", kNoEffect),
    gone("trust_remote_code", "no code of a model is ever run"),
    gone("dataloader_num_workers", kNoEffect),
    gone("dataloader_pin_memory", kNoEffect),
    gone("dataloader_prefetch_factor", kNoEffect),
    gone("dataloader_persistent_workers", kNoEffect),
    gone("per_device_eval_batch_size", "evaluations take micro-batches of training; their losses do not depend on it"),
    gone("eval_accumulation_steps", kNoEffect),
    gone("group_by_length", "rows come in a seeded order, padded to one of four lengths"),
    gone("remove_unused_columns", kNoEffect),
    gone("save_only_model", "a checkpoint holds everything that a run resumes from"),
    gone("save_safetensors", "it is always so"),
    gone("logging_dir", kNoReport),
    gone("logging_strategy", "there is one line for every logging_steps"),
    gone("logging_first_step", "logging_steps is 1 unless set"),
    gone("run_name", "the name of output_dir is the run's"),
    gone("push_to_hub", kNoHub),
    gone("hub_model_id", kNoHub),
    gone("hub_strategy", kNoHub),
    gone("hub_private_repo", kNoHub),
    gone("include_tokens_per_second", "each step's line has it"),
    gone("include_num_input_tokens_seen", "each step's line has tokens_total"),
    gone("neftune_noise_alpha", "noise on embeddings is not implemented"),
    gone("label_smoothing_factor", "smoothed labels are not implemented"),
    gone("average_tokens_across_devices", "the loss is the mean over all target tokens of a step"),
};

}  // namespace

std::span<const ForeignRule> common_rules() {
    return kRules;
}

void finish_common(ForeignDraft& draft) {
    const Config& c = draft.config();
    if (c.lr_scheduler_type == "constant") {
        draft.unset("warmup_steps", "warmup_steps", "the schedule constant has no warm-up");
        draft.unset("warmup_ratio", "warmup_ratio", "the schedule constant has no warm-up");
    }
    if (c.min_lr_ratio > 0 && c.lr_scheduler_type == "cosine")
        draft.set("lr_scheduler_type", "cosine_with_min_lr", "lr_scheduler", "was cosine, with a least rate");
    if (c.max_steps && c.warmup_steps > *c.max_steps)
        draft.unset("warmup_steps", "warmup_steps", "it is longer than the run");
    if (!c.eval_data.empty()) draft.unset("val_split", "val_size", "there are rows of their own to evaluate on");
    const bool has_rows = !c.eval_data.empty() || c.val_split > 0;
    if (!has_rows)
        draft.unset("eval_steps", "eval_steps", "there is nothing to evaluate on: give eval_data or val_split");
    if (has_rows && looks_for_best(c) && !c.eval_steps)
        draft.set("eval_steps", "100", "eval_steps",
                  "the best step needs a number of steps between evaluations: choose it");
    if (!has_rows) {
        draft.unset("load_best_model_at_end", "load_best_model_at_end", "there is nothing to evaluate on");
        draft.unset("early_stopping_patience", "early_stopping_patience", "there is nothing to evaluate on");
    }
    if (!looks_for_best(c)) draft.unset("metric_for_best_model", "metric_for_best_model", "no steps are compared");
}

}  // namespace windlass
