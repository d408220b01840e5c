#include "config/config_keys.h"

#include "base/error.h"
#include "method/recipe.h"
#include "op/batch.h"
#include "perturb/moments.h"

namespace windlass {
namespace {

std::vector<std::string_view> method_names() {
    std::vector<std::string_view> names;
    for (const Method* method : all_methods()) names.push_back(method->name);
    return names;
}

std::vector<std::string_view> allowed_changes() {
    std::vector<std::string_view> names(kUpdateSettings.begin(), kUpdateSettings.end());
    names.push_back(kKernelsSetting);
    names.push_back(kEvalRowsSetting);
    return names;
}

std::vector<ConfigKey> data_keys() {
    return {
        {.name = "model",
         .resume = OnResume::free,
         .field = &Config::model,
         .group = kData,
         .help = "Hugging Face model folder to start from (config.json, *.safetensors, tokenizer), or the id of one in "
                 "the Hugging Face cache",
         .aliases = {"base_model", "model_name_or_path"},
         .names_files = true},
        {.name = "ignore_config_keys",
         .resume = OnResume::refused,
         .field = &Config::ignore_config_keys,
         .group = kData,
         .help = "config.json keys to ignore, such as rope_scaling.mscale. Use it only if you know that a refused key "
                 "does not change the model"},
        {.name = "output_dir",
         .resume = OnResume::free,
         .field = &Config::output_dir,
         .group = kData,
         .help = "folder of the run: metrics, checkpoints, final model",
         .names_files = true},
        {.name = "train_data",
         .resume = OnResume::resolved,
         .field = &Config::train_data,
         .group = kData,
         .help = "rows to train on: .jsonl, .json, .csv, .tsv or .txt files, compressed or not, folders of them, "
                 "patterns such as 'rows/*.jsonl'; their keys decide the format",
         .aliases = {"dataset", "train_file", "datasets"},
         .names_files = true},
        {.name = "eval_data",
         .resume = OnResume::free,
         .field = &Config::eval_data,
         .group = kData,
         .help = "rows to evaluate on: files, folders, patterns",
         .aliases = {"eval_dataset", "validation_file", "test_datasets"},
         .names_files = true},
        {.name = "val_split",
         .resume = OnResume::refused,
         .field = &Config::val_split,
         .group = kData,
         .help = "rows of train_data held out for evaluation: a share below 1, or a number of rows",
         .aliases = {"val_set_size", "val_size"},
         .min = 0,
         .max = kCountMax},
    };
}

std::vector<ConfigKey> row_keys() {
    return {
        {.name = "max_length",
         .resume = OnResume::resolved,
         .field = &Config::max_length,
         .group = kData,
         .help = "longest row",
         .unit = "tokens",
         .aliases = {"sequence_len", "cutoff_len", "max_seq_length", "max_seq_len"},
         .min = 2,
         .max = 1 << 20},
        {.name = "truncation",
         .resume = OnResume::resolved,
         .field = &Config::truncation,
         .group = kData,
         .help = "what happens to longer rows: left out, cut on the left or right, split, refused; auto: text is "
                 "split, rows with a prompt are left out (eval: cut on the right)",
         .choices = {"auto", "drop", "left", "right", "split", "error"}},
        {.name = "packing",
         .resume = OnResume::refused,
         .field = &Config::packing,
         .group = kData,
         .help = "pack several rows into one sequence of max_length tokens; attention does not cross rows",
         .aliases = {"sample_packing"}},
        {.name = "train_on_prompt",
         .resume = OnResume::resolved,
         .field = &Config::train_on_prompt,
         .group = kData,
         .help = "train on the prompt too, not only on the completion",
         .aliases = {"train_on_inputs"}},
        {.name = "add_eos",
         .resume = OnResume::resolved,
         .field = &Config::add_eos,
         .group = kData,
         .help = "end every row with the end-of-text token, and train on it"},
        {.name = "skip_malformed",
         .resume = OnResume::resolved,
         .field = &Config::skip_malformed,
         .group = kData,
         .help = "skip and count rows that cannot be read, instead of stopping at the first"},
        {.name = "document_separator",
         .resume = OnResume::resolved,
         .field = &Config::document_separator,
         .group = kData,
         .help = ".txt files: a line of only this ends a document; null: a file is one document"},
    };
}

std::vector<ConfigKey> chat_keys() {
    return {
        {.name = "chat_template",
         .resume = OnResume::resolved,
         .field = &Config::chat_template,
         .group = kData,
         .help = "how chats and Alpaca rows are rendered: auto, with the model's own template if it has one; none; or "
                 "a .jinja file",
         .names_files = true},
        {.name = "train_turns",
         .resume = OnResume::resolved,
         .field = &Config::train_turns,
         .group = kData,
         .help = "which messages of a chat are trained: the assistant's, its last one, or all; never those with "
                 "\"train\": false",
         .choices = {"assistant", "last", "all"}},
        {.name = "template_date",
         .resume = OnResume::free,
         .field = &Config::template_date,
         .group = kData,
         .help = "the date that a chat template prints, such as 2026-01-31; null: the day on which the run begins"},
        {.name = "messages_field",
         .resume = OnResume::resolved,
         .field = &Config::messages_field,
         .group = kData,
         .help = "key of a row's messages"},
    };
}

std::vector<ConfigKey> field_keys() {
    return {
        {.name = "text_field",
         .resume = OnResume::resolved,
         .field = &Config::text_field,
         .group = kData,
         .help = "key of a row's text"},
        {.name = "prompt_field",
         .resume = OnResume::resolved,
         .field = &Config::prompt_field,
         .group = kData,
         .help = "key of a row's prompt"},
        {.name = "completion_field",
         .resume = OnResume::resolved,
         .field = &Config::completion_field,
         .group = kData,
         .help = "key of a row's completion"},
        {.name = "instruction_field",
         .resume = OnResume::resolved,
         .field = &Config::instruction_field,
         .group = kData,
         .help = "key of an alpaca row's instruction"},
        {.name = "input_field",
         .resume = OnResume::resolved,
         .field = &Config::input_field,
         .group = kData,
         .help = "key of an alpaca row's input"},
        {.name = "output_field",
         .resume = OnResume::resolved,
         .field = &Config::output_field,
         .group = kData,
         .help = "key of an alpaca row's output"},
        {.name = "cache_dir",
         .resume = OnResume::free,
         .field = &Config::cache_dir,
         .group = kData,
         .help = "folder of tokenised rows; null: windlass/tokens in the user's cache folder",
         .names_files = true},
    };
}

std::vector<ConfigKey> batch_keys() {
    return {
        {.name = "preset",
         .resume = OnResume::free,
         .field = &Config::preset,
         .group = kMethod,
         .help = "settings of a paper, which all other settings override: a name, or a JSON file",
         .names_files = true},
        {.name = "method",
         .resume = OnResume::resolved,
         .field = &Config::method,
         .group = kMethod,
         .help = "update rule",
         .choices = method_names()},
        {.name = "num_train_epochs",
         .resume = OnResume::warned,
         .field = &Config::num_train_epochs,
         .group = kMethod,
         .help = "passes over the training rows; max_steps overrides it. The last step of an epoch takes rows of the "
                 "next one; "
                 "the Trainer of transformers makes a short step",
         .aliases = {"num_epochs", "epochs"},
         .min = 0,
         .max = 1e6},
        {.name = "max_steps",
         .resume = OnResume::warned,
         .field = &Config::max_steps,
         .group = kMethod,
         .help = "optimizer steps of the run",
         .min = 1,
         .max = 4e9},
        {.name = "per_device_train_batch_size",
         .resume = OnResume::resolved,
         .field = &Config::per_device_train_batch_size,
         .group = kMethod,
         .help = "rows of a micro-batch; auto: the fastest that fits, with accumulation raised so that a step has 8 x "
                 "gradient_accumulation_steps rows, or an epoch if that has fewer",
         .unit = "rows",
         .aliases = {"micro_batch_size", "batch_size", "train_batch_size"},
         .min = 1,
         .max = 65536,
         .empty = "auto"},
        {.name = "gradient_accumulation_steps",
         .resume = OnResume::resolved,
         .field = &Config::gradient_accumulation_steps,
         .group = kMethod,
         .help = "micro-batches per optimizer step",
         .aliases = {"grad_accum", "gradient_accumulation"},
         .min = 1,
         .max = 65536},
    };
}

std::vector<ConfigKey> rhythm_keys() {
    return {
        {.name = "machine",
         .resume = OnResume::free,
         .field = &Config::machine,
         .group = kMemory,
         .help = "plan only: another machine to plan for, a file or the name of a profile, with that machine's memory "
                 "and disk",
         .names_files = true},
        {.name = "logging_steps",
         .resume = OnResume::free,
         .field = &Config::logging_steps,
         .group = kIntervals,
         .help = "steps between two lines",
         .min = 1,
         .max = 4e9},
        {.name = "eval_steps",
         .resume = OnResume::free,
         .field = &Config::eval_steps,
         .group = kIntervals,
         .help = "steps between two evaluations; null: at the end only",
         .min = 1,
         .max = 4e9},
        {.name = "save_steps",
         .resume = OnResume::free,
         .field = &Config::save_steps,
         .group = kIntervals,
         .help = "steps between two checkpoints; null: only on a signal",
         .min = 1,
         .max = 4e9},
        {.name = "save_total_limit",
         .resume = OnResume::free,
         .field = &Config::save_total_limit,
         .group = kIntervals,
         .help = "number of newest checkpoints to keep; null: all",
         .min = 1,
         .max = 4e9},
        {.name = "save_first_step",
         .resume = OnResume::free,
         .field = &Config::save_first_step,
         .group = kIntervals,
         .help = "save a checkpoint after the first step, which proves that saving works"},
        {.name = "export_steps",
         .resume = OnResume::free,
         .field = &Config::export_steps,
         .group = kIntervals,
         .help = "steps between two exports, model folders export-<step> in output_dir; if the state is on disk, they "
                 "are written during training; null: only on request",
         .min = 1,
         .max = 4e9},
    };
}

std::vector<ConfigKey> run_keys() {
    return {
        {.name = "loss_watchdog_threshold",
         .resume = OnResume::free,
         .field = &Config::loss_watchdog_threshold,
         .group = kIntervals,
         .help = "stop (exit 8) if the loss stays above this",
         .min = 0,
         .max = 1e9},
        {.name = "loss_watchdog_patience",
         .resume = OnResume::free,
         .field = &Config::loss_watchdog_patience,
         .group = kIntervals,
         .help = "steps above the threshold, or not finite, that stop the run",
         .min = 1,
         .max = 4e9},
        {.name = "report_to",
         .resume = OnResume::free,
         .field = &Config::report_to,
         .group = kIntervals,
         .help = "metrics files in addition to log.txt and loss.svg",
         .choices = {"jsonl", "tensorboard", "none"}},
        {.name = "resume",
         .resume = OnResume::free,
         .field = &Config::resume,
         .group = kIntervals,
         .help = "continue the run in output_dir: auto (its newest state), or a step: of a checkpoint, or, with "
                 "methods that keep a log, any step of the log; later steps are undone",
         .aliases = {"resume_from_checkpoint"}},
        {.name = "branch_from",
         .resume = OnResume::free,
         .field = &Config::branch_from,
         .group = kIntervals,
         .help = "zeroth_order, forward_gradient: start output_dir after a step of another run: RUN_DIR@STEP, or "
                 "RUN_DIR for the last step of its log; that run is not changed",
         .names_files = true},
        {.name = "allow_changed_settings",
         .resume = OnResume::free,
         .field = &Config::allow_changed_settings,
         .group = kIntervals,
         .help = "with resume: update settings that may differ from those of the run so far; kernels: another "
                 "processor or device may compute its steps; eval_data: the best step may be compared with steps on "
                 "other rows. A warning names each difference",
         .choices = allowed_changes()},
        {.name = "overwrite",
         .resume = OnResume::free,
         .field = &Config::overwrite,
         .group = kIntervals,
         .help = "replace what an earlier run left in output_dir",
         .aliases = {"overwrite_output_dir"}},
    };
}

}  // namespace

std::span<const ConfigKey> config_keys() {
    static const std::vector<ConfigKey> keys = [] {
        std::vector<ConfigKey> all;
        for (auto group : {data_keys(),           task_keys(),      row_keys(),   chat_keys(),   field_keys(),
                           batch_keys(),          schedule_keys(),  adam_keys(),  group_keys(),  adapter_keys(),
                           adapted_module_keys(), projector_keys(), probe_keys(), moment_keys(), estimator_keys(),
                           objective_keys(),      memory_keys(),    tier_keys(),  disk_keys(),   rhythm_keys(),
                           best_keys(),           sample_keys(),    run_keys()}) {
            all.insert(all.end(), group.begin(), group.end());
        }
        return all;
    }();
    return keys;
}

}  // namespace windlass
