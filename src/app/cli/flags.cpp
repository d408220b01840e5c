#include "app/cli/flags.h"

#include <CLI/CLI.hpp>

#include "base/nearest.h"

namespace windlass {
namespace {

// A word that is one of a few, in any case; any other is refused with all of them, and the nearest.
CLI::Validator one_of(std::string place, std::vector<std::string_view> names) {
    const std::string description = fmt::format("one of {}", fmt::join(names, "|"));  // for outline.cpp
    const auto choose = [place = std::move(place), names = std::move(names)](std::string& word) -> std::string {
        for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        if (std::ranges::find(names, word) != names.end()) return "";
        const std::string_view near = nearest_name(word, names);
        const std::string_view most_likely = near.empty() ? names.front() : near;
        throw UserError(ExitCode::usage, place, "\"{}\" is not one of: {}", word, fmt::join(names, ", "))
            .hint(place.starts_with("--") ? fmt::format("{} {}", place, most_likely) : std::string(most_likely));
    };
    return CLI::Validator(choose, description);
}

CLI::App* add_verb(CLI::App& app, Arguments& args, const char* name) {
    CLI::App* verb = app.add_subcommand(name);
    verb->set_help_flag("-h,--help", "Print this help");
    verb->set_help_all_flag("--help-all", "Print this help with all settings")->group("");
    verb->add_flag("--json", args.json, "Print the result, or the error, as JSON; =lines: events, one on each line")
        ->check(one_of("--json", {"true", "false", "lines"}));
    verb->add_option("--within", args.within)->allow_extra_args(false)->group("");
    verb->add_flag("--end-with-parent", args.ends_with_parent)->group("");
    verb->add_flag("-q,--quiet", args.quiet, "Print warnings and errors only");
    return verb;
}

// Verbs whose further words are all configuration.
void takes_config(CLI::App* verb) {
    verb->allow_extras();
}

void takes_download(CLI::App* verb, bool& download) {
    verb->add_flag("--download", download, "Download the model first, by hf, if it is not in the Hugging Face cache");
}

// How a verb that writes text chooses its tokens, and where it ends.
template <typename Args>
void takes_sampling(CLI::App* verb, Args& args, const char* usual_length) {
    verb->add_option("--max-new-tokens", args.max_new_tokens, fmt::format("Longest text [{}]", usual_length))
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
    verb->add_option("--temperature", args.temperature, "0: the most likely token each time [0]")
        ->check(CLI::Range(0.0, 100.0));
    verb->add_option("--top-k", args.top_k, "Draw from the k most likely; 0: from all [0]")
        ->check(CLI::Range(int64_t{0}, int64_t{1} << 24));
    verb->add_option("--top-p", args.top_p,
                     "Nucleus sampling: draw from the smallest set of tokens with this total probability [1]")
        ->check(CLI::Range(0.0, 1.0));
    verb->add_option("--stop", args.stops, "A text before which to end; may be repeated")->allow_extra_args(false);
}

void add_data_verb(CLI::App& app, Arguments& args) {
    CLI::App* data = add_verb(app, args, "data");
    takes_config(data);
    takes_download(data, args.data.download);
    data->add_option("what", args.data_what, "show, stats, check or keys")
        ->required()
        ->check(one_of("data", {"show", "stats", "check", "keys"}));
    data->add_option("--samples", args.data.samples, "Samples to show [3]")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
}

void add_config_verbs(CLI::App& app, Arguments& args) {
    CLI::App* plan = add_verb(app, args, "plan");
    takes_config(plan);
    takes_download(plan, args.plan.download);
    plan->add_flag("--alone", args.plan.alone, "Leave out the comparison with other settings (faster)");
    plan->add_option("--compare-seconds", args.plan.compare_seconds, "Longest comparison; 0: until it is complete [20]")
        ->check(CLI::Range(0.0, 1e6));
    plan->add_flag("--no-plan-cache", args.plan.no_plan_cache, "Search again, even if a plan is kept");
    plan->add_option("--trace", args.plan.trace, "Write the predicted step as a Chrome trace")->type_name("FILE");
    plan->add_flag("--lanes", args.plan.lanes, "With --json=lines: the predicted step's tasks, as an event");
    CLI::App* train = add_verb(app, args, "train");
    takes_config(train);
    takes_download(train, args.train.download);
    train->add_option("--trace", args.train.trace, "Write the first and last step as a Chrome trace")
        ->type_name("FILE");
    train->add_option("--trace-steps", args.train.trace_steps, "Steps to write instead, such as 1,10")
        ->delimiter(',')
        ->check(CLI::PositiveNumber)
        ->expected(1, 16);
    train->add_flag("--dry-run", args.train.dry_run, "Check the configuration, print it and exit");
    CLI::App* eval = add_verb(app, args, "eval");
    takes_config(eval);
    takes_download(eval, args.eval.download);
    eval->add_option("--data", args.eval.data, "Rows to evaluate on: files, folders, patterns")
        ->allow_extra_args(false);
    eval->add_option("--choices", args.eval.choices, "Candidate completions, separated by |");
    eval->add_option("--reference", args.eval.reference, "Reference model of objective dpo [an adapter's base]");
    eval->add_option("--shots", args.eval.shots, "Rows of train_data shown in front of each prompt of a task [0]")
        ->check(CLI::Range(int64_t{0}, int64_t{1024}));
    CLI::App* generate = add_verb(app, args, "generate");
    takes_config(generate);
    takes_download(generate, args.generate.download);
    generate->add_option("--prompt", args.generate.prompt, "Text to continue; - reads it from stdin")->required();
    generate->add_flag("--chat", args.generate.chat, "The prompt is a message for the chat template");
    takes_sampling(generate, args.generate, "128");
    CLI::App* chat = add_verb(app, args, "chat");
    takes_config(chat);
    takes_download(chat, args.chat.download);
    chat->add_option("--system", args.chat.system, "The system's message, before the conversation");
    takes_sampling(chat, args.chat, "1024");
    add_data_verb(app, args);
}

// Of verbs without configuration; "[a, b]" as there.
void takes_ignored_keys(CLI::App* verb, std::vector<std::string>& keys) {
    verb->add_option("--ignore-config-keys", keys, "Keys of the model's config.json to ignore")
        ->delimiter(',')
        ->transform([](const std::string& word) {
            const size_t begin = word.find_first_not_of("[ "), end = word.find_last_not_of("] ");
            return begin == word.npos || end == word.npos ? "" : word.substr(begin, end - begin + 1);
        });
}

void add_run_verbs(CLI::App& app, Arguments& args) {
    CLI::App* status = add_verb(app, args, "status");
    status->add_option("run", args.status.run, "Folder of the run")->required();
    status->add_flag("-f,--follow", args.status.follow, "Print a line for each step until it ends");
    CLI::App* runs = add_verb(app, args, "runs");
    runs->add_option("folder", args.runs.folder, "Folder to search, and those below it [.]");
    CLI::App* ui = add_verb(app, args, "ui");
    ui->add_option("--root", args.ui.root, "Folder that the page may read and write in [.]");
    ui->add_option("--also", args.ui.others, "Another folder that it may use, such as one with models; may be repeated")
        ->allow_extra_args(false);
    ui->add_option("--port", args.ui.port, "Port on 127.0.0.1; 0: 7877, or the next that is free [0]")
        ->check(CLI::Range(0, 65535));
}

void add_other_verbs(CLI::App& app, Arguments& args) {
    CLI::App* to_export = add_verb(app, args, "export");
    to_export
        ->add_option("source", args.to_export.source,
                     "RUN, RUN:STEP, or a checkpoint's folder; for a GGUF file a model's too")
        ->required();
    to_export->add_option("--to", args.to_export.target, "Folder to write, or a GGUF file: NAME.gguf")->required();
    to_export->add_option("--model", args.to_export.model,
                          "Folder of the base, where it is not the one that the run names");
    to_export->add_option("--dtype", args.to_export.dtype, "bf16, f16 or f32; without it the base's types");
    to_export->add_option("--type", args.to_export.type,
                          "Of a GGUF file: f32, f16, bf16 or q8_0; without it the base's type");
    to_export->add_option("--max-shard-size", args.to_export.max_shard_size,
                          "Largest file, such as 5GB; without it as the base");
    CLI::Option* const delta = to_export->add_flag(
        "--delta", args.to_export.delta,
        "Of a run with an adapter, only the adapter: the default, except for lsp, which exports the whole model");
    to_export
        ->add_option("--merged", args.to_export.merged,
                     "Of a run with an adapter, the whole model: the adapter is added to the base's own numbers "
                     "(base), or to those that the run computed with (computed)")
        ->expected(0, 1)
        ->default_str("base")
        ->check(one_of("--merged", {"base", "computed"}))
        ->excludes(delta);
    to_export->add_flag("--overwrite", args.to_export.overwrite, "Replace the target");
    takes_download(to_export, args.to_export.download);
    CLI::App* replay = add_verb(app, args, "replay");
    replay->add_option("base", args.replay.base, "Model folder that the run started from")->required();
    replay->add_option("log", args.replay.log, "The run's trajectory.wlt")->required();
    replay->add_option("--to", args.replay.target, "Folder to write, or a GGUF file: NAME.gguf")->required();
    replay->add_option("--type", args.replay.type,
                       "Of a GGUF file: f32, f16, bf16 or q8_0; without it the base's type");
    replay->add_option("--step", args.replay.step, "Step whose weights are rebuilt [the last]")
        ->check(CLI::NonNegativeNumber);
    replay->add_option("--threads", args.replay.threads, "Threads to replay with [one per core]")
        ->check(CLI::Range(1, 1024));
    replay->add_flag("--overwrite", args.replay.overwrite, "Replace the target");
    takes_ignored_keys(replay, args.replay.ignored_keys);
    takes_download(replay, args.replay.download);
    CLI::App* inspect = add_verb(app, args, "inspect");
    inspect->add_option("model", args.inspect.model, "Model folder")->required();
    inspect->add_flag("--tensors", args.inspect.tensors, "List every tensor");
    takes_ignored_keys(inspect, args.inspect.ignored_keys);
    takes_download(inspect, args.inspect.download);
    CLI::App* doctor = add_verb(app, args, "doctor");
    doctor->add_option("--ssd,--ssd-dir", args.doctor.ssd_dir, "Folder whose drive is examined too");
    doctor->add_option("--device", args.doctor.device, "cuda or cuda:N: this device and its link are measured too");
    doctor->add_option("--threads", args.doctor.threads, "Threads to measure with")->check(CLI::Range(1, 1024));
    doctor->add_option("--save", args.doctor.save,
                       "File to write the machine to, for editing; plan --machine reads it");
    doctor->add_option("--machine", args.doctor.machine, "File or profile to show instead of measuring this machine");
}

// Verbs whose result is a text that they know.
void add_text_verbs(CLI::App& app, Arguments& args) {
    CLI::App* config = app.add_subcommand("config");
    config->set_help_flag("-h,--help", "Print this help");
    config->require_subcommand(1);
    CLI::App* from = add_verb(*config, args, "from");
    from->add_option("file", args.config.file, "The other tool's file")->required();
    add_verb(*config, args, "schema");
    CLI::App* completion = add_verb(app, args, "completion");
    completion->add_option("shell", args.completion.shell, "bash, zsh or fish")
        ->required()
        ->check(one_of("completion", {"bash", "zsh", "fish"}));
    add_verb(app, args, "version")
        ->add_flag("--licences,--licenses", args.version.licences, "Print the licences of the libraries instead");
}

}  // namespace

void add_verbs(CLI::App& app, Arguments& args) {
    add_config_verbs(app, args);
    add_run_verbs(app, args);
    add_other_verbs(app, args);
    add_text_verbs(app, args);
}

}  // namespace windlass
