// The command line: verbs, their flags and help. What a verb does is in the file of its name.

#include <CLI/CLI.hpp>

#include "app/cli/verbs.h"
#include "base/activity.h"
#include "base/log.h"
#include "base/nearest.h"
#include "config/config.h"
#include "session/signals.h"
#include "train/progress.h"

namespace windlass {
namespace {

constexpr const char* kTop =
    "Fine-tunes Hugging Face language models that are heavier than memory.\n\n"
    "Examples:\n"
    "  windlass inspect models/Qwen3-0.6B                        what is in a model folder\n"
    "  windlass plan --model models/Qwen3-0.6B                   does it fit, how fast will it be\n"
    "  windlass train --model models/Qwen3-0.6B --train-data rows.jsonl --output-dir runs/first\n"
    "  windlass train run.yaml learning_rate=1e-5 --resume\n"
    "  windlass generate runs/first/final --prompt \"Once upon a time\"\n"
    "  windlass chat runs/first/final                            talk with what was trained\n\n"
    "A model is a folder, or the id that it has in the Hugging Face cache, such as Qwen/Qwen3-0.6B.\n"
    "windlass help VERB, or VERB --help, says what a verb takes.\n";

constexpr const char* kTrain =
    "Trains a model and writes a Hugging Face folder, OUTPUT_DIR/final.\n\n"
    "Examples:\n"
    "  windlass train run.yaml\n"
    "  windlass train run.yaml learning_rate=1e-5 --max-steps 100\n"
    "  windlass train --model M --train-data rows.jsonl --output-dir runs/first --ram 8GiB --ssd-dir /nvme/windlass\n"
    "  windlass train runs/first/run.yaml --resume\n\n"
    "Ctrl-C, SIGTERM or SIGHUP finishes the step and saves; twice stops at once. SIGUSR1, or making the file\n"
    "OUTPUT_DIR/save, saves.\n";

constexpr const char* kPlan =
    "Says whether a run fits the memory and disk it may use, where everything lives, and how fast it will be.\n\n"
    "Examples:\n"
    "  windlass plan run.yaml\n"
    "  windlass plan --model M --max-length 1024 --per-device-train-batch-size 4 --ram 8GiB --ssd-dir /nvme\n"
    "  windlass plan --model M --machine rtx4090-desktop\n";

constexpr const char* kEval =
    "Loss and perplexity of a model over rows; with --task, how good it is at one; with --choices, how often it\n"
    "prefers the right completion; with --objective dpo or orpo, how it judges pairs of answers.\n\n"
    "Examples:\n"
    "  windlass eval runs/first/final --data test.jsonl\n"
    "  windlass eval runs/dpo/final --data pairs.jsonl --objective dpo --reference M\n"
    "  windlass eval M --task sst2 --data dev.tsv --eval-samples 1000\n"
    "  windlass eval M --task squad --data dev.jsonl --train-data train.jsonl --shots 8\n"
    "  windlass eval M --data sst2.jsonl --choices \" great| terrible\"\n";

constexpr const char* kGenerate =
    "Continues a text.\n\n"
    "Examples:\n"
    "  windlass generate runs/first/final --prompt \"Once upon a time\"\n"
    "  windlass generate M --prompt - --temperature 0.8 --top-p 0.95 --seed 7 < prompt.txt\n";

constexpr const char* kChat =
    "Talks with a model: reads messages from stdin, a line each, and answers them.\n\n"
    "Examples:\n"
    "  windlass chat runs/first/final\n"
    "  windlass chat M --system \"You are terse.\" --temperature 0.7 --top-p 0.9 --ram 8GiB\n"
    "  printf 'Who are you?\\n' | windlass chat M\n\n"
    "/system TEXT, /undo, /reset, /save FILE, /quit and /help are commands.\n";

constexpr const char* kData =
    "Shows the rows that a run would train on: what is learned of them, their lengths, what is wrong with them.\n\n"
    "Examples:\n"
    "  windlass data show run.yaml                               samples, with what is learned in colour\n"
    "  windlass data stats --model M --train-data rows.jsonl     lengths, and what is left out\n"
    "  windlass data check --model M --train-data rows.jsonl     every row that cannot be read\n";

constexpr const char* kExport =
    "Writes a model folder, or a GGUF file for llama.cpp, from a checkpoint or the working store of a run.\n\n"
    "Examples:\n"
    "  windlass export runs/first --to models/tuned\n"
    "  windlass export runs/first:200 --to models/tuned --dtype bf16 --max-shard-size 5GB\n"
    "  windlass export runs/lora --merged --to models/tuned\n"
    "  windlass export runs/first --to tuned.gguf --type q8_0\n";

constexpr const char* kReplay =
    "Makes the weights of a step again, from the log of a forward-only run.\n\n"
    "Examples:\n"
    "  windlass replay models/opt-1.3b runs/first/trajectory.wlt --to models/tuned\n"
    "  windlass replay models/opt-1.3b runs/first/trajectory.wlt --step 200 --to models/after-200\n";

constexpr const char* kConfig =
    "Makes a configuration out of a training file of LLaMA-Factory or axolotl.\n\n"
    "Examples:\n"
    "  windlass config from llama3_lora_sft.yaml > run.yaml\n"
    "  windlass plan run.yaml\n\n"
    "What is not taken over is listed on stderr, each with its reason.\n";

constexpr const char* kInspect = "Says what a model folder holds and whether Windlass can train it.";
constexpr const char* kDoctor = "Examines this machine: processor, memory, limits, disk, and how fast they are.";

constexpr const char* kExitCodes =
    "\nExit codes: 0 ok, 1 internal, 2 usage or configuration, 3 does not fit, 4 data, 5 model or tokenizer,\n"
    "6 files and disks, 7 device or driver, 8 diverged, 130 and 143 stopped by a signal.\n";

// Lists verbs by the first line of their descriptions.
class HelpFormatter : public CLI::Formatter {
  public:
    std::string make_subcommand(const CLI::App* verb) const override {
        const std::string description = verb->get_description();
        return fmt::format("  {:<12}{}\n", verb->get_name(), description.substr(0, description.find('\n')));
    }
};

struct Arguments {
    bool quiet = false;
    PlanArgs plan;
    TrainArgs train;
    EvalArgs eval;
    GenerateArgs generate;
    ChatArgs chat;
    DataArgs data;
    ExportArgs to_export;
    ReplayArgs replay;
    InspectArgs inspect;
    DoctorArgs doctor;
    ConfigArgs config;
    VersionArgs version;
};

CLI::App* add_verb(CLI::App& app, Arguments& args, const char* name, const char* description, bool& json) {
    CLI::App* verb = app.add_subcommand(name, description);
    verb->set_help_flag("-h,--help", "Print this help and leave");
    verb->add_flag("--json", json, "Print the result as JSON");
    verb->add_flag("-q,--quiet", args.quiet, "Warnings and errors only");
    return verb;
}

// Verbs of which every further word is configuration.
void takes_config(CLI::App* verb) {
    verb->allow_extras();
    verb->footer([] {
        return "\nConfiguration (also key: value in a file, and key=value):\n" + config_help(terminal_style(1).columns);
    });
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
    verb->add_option("--top-p", args.top_p, "Draw from the most likely that hold this share [1]")
        ->check(CLI::Range(0.0, 1.0));
    verb->add_option("--stop", args.stops, "A text before which to end; may be repeated")->allow_extra_args(false);
}

void add_data_verb(CLI::App& app, Arguments& args) {
    CLI::App* data = add_verb(app, args, "data", kData, args.data.json);
    takes_config(data);
    static const std::map<std::string, DataArgs::What> kWhats = {
        {"show", DataArgs::What::show}, {"stats", DataArgs::What::stats}, {"check", DataArgs::What::check}};
    data->add_option("what", args.data.what, "show, stats or check")
        ->required()
        ->transform(CLI::CheckedTransformer(kWhats, CLI::ignore_case))
        ->option_text("show | stats | check");
    data->add_option("--samples", args.data.samples, "Samples to show [3]")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
}

void add_config_verbs(CLI::App& app, Arguments& args) {
    CLI::App* plan = add_verb(app, args, "plan", kPlan, args.plan.json);
    takes_config(plan);
    plan->add_flag("--alone", args.plan.alone, "This plan, and no others to compare with it, which take longer");
    plan->add_option("--trace", args.plan.trace, "File to write the predicted step to, as a Chrome trace");
    CLI::App* train = add_verb(app, args, "train", kTrain, args.train.json);
    takes_config(train);
    train->add_option("--trace", args.train.trace,
                      "File to write the first and the last step to as they ran, as a Chrome trace");
    train->add_option("--trace-steps", args.train.trace_steps, "Steps to write instead, such as 1,10,20")
        ->delimiter(',')
        ->check(CLI::PositiveNumber)
        ->expected(1, 16);
    train->add_flag("--dry-run", args.train.dry_run, "Check the configuration, print it, leave");
    CLI::App* eval = add_verb(app, args, "eval", kEval, args.eval.json);
    takes_config(eval);
    eval->add_option("--data", args.eval.data, "Rows to evaluate on: files, folders, patterns")
        ->allow_extra_args(false);
    eval->add_option("--choices", args.eval.choices, "Candidate completions, separated by |");
    eval->add_option("--reference", args.eval.reference,
                     "Model that pairs of answers are compared by, of objective dpo [an adapter's base]");
    eval->add_option("--shots", args.eval.shots, "Rows of train_data shown in front of each prompt of a task [0]")
        ->check(CLI::Range(int64_t{0}, int64_t{1024}));
    CLI::App* generate = add_verb(app, args, "generate", kGenerate, args.generate.json);
    takes_config(generate);
    generate->add_option("--prompt", args.generate.prompt, "Text to continue; - reads it from stdin")->required();
    generate->add_flag("--chat", args.generate.chat, "The prompt is a message: put it into the model's chat template");
    takes_sampling(generate, args.generate, "128");
    CLI::App* chat = add_verb(app, args, "chat", kChat, args.chat.json);
    takes_config(chat);
    chat->add_option("--system", args.chat.system, "What stands before the conversation");
    takes_sampling(chat, args.chat, "1024");
    add_data_verb(app, args);
}

// Of verbs without configuration; "[a, b]" as there.
void takes_ignored_keys(CLI::App* verb, std::vector<std::string>& keys) {
    verb->add_option("--ignore-config-keys", keys, "Keys of the model's config.json that are taken not to be there")
        ->delimiter(',')
        ->transform([](const std::string& word) {
            const size_t begin = word.find_first_not_of("[ "), end = word.find_last_not_of("] ");
            return begin == word.npos || end == word.npos ? "" : word.substr(begin, end - begin + 1);
        });
}

void add_other_verbs(CLI::App& app, Arguments& args) {
    CLI::App* to_export = add_verb(app, args, "export", kExport, args.to_export.json);
    to_export
        ->add_option("source", args.to_export.source,
                     "RUN, RUN:STEP, or a checkpoint's folder; for a GGUF file a model's too")
        ->required();
    to_export->add_option("--to", args.to_export.target, "Folder to write, or a GGUF file: NAME.gguf")->required();
    to_export->add_option("--dtype", args.to_export.dtype, "bf16, f16 or f32; without it the base's types");
    to_export->add_option("--type", args.to_export.type,
                          "Of a GGUF file: f32, f16, bf16 or q8_0; without it the base's type");
    to_export->add_option("--max-shard-size", args.to_export.max_shard_size,
                          "Largest file, such as 5GB; without it as the base");
    CLI::Option* const delta = to_export->add_flag(
        "--delta", args.to_export.delta,
        "Of a run with an adapter, the adapter alone: what is written anyway, but of lsp the whole model");
    to_export
        ->add_option("--merged", args.to_export.merged,
                     "Of a run with an adapter, the whole model: what was learnt added to the base's own numbers "
                     "(base), or to those that the run computed with (computed)")
        ->expected(0, 1)
        ->default_str("base")
        ->check(CLI::IsMember({"base", "computed"}))
        ->excludes(delta);
    to_export->add_flag("--overwrite", args.to_export.overwrite, "Replace the target");
    CLI::App* replay = add_verb(app, args, "replay", kReplay, args.replay.json);
    replay->add_option("base", args.replay.base, "Model folder that the run started from")->required();
    replay->add_option("log", args.replay.log, "The run's trajectory.wlt")->required();
    replay->add_option("--to", args.replay.target, "Folder to write, or a GGUF file: NAME.gguf")->required();
    replay->add_option("--type", args.replay.type,
                       "Of a GGUF file: f32, f16, bf16 or q8_0; without it the base's type");
    replay->add_option("--step", args.replay.step, "Step whose weights are wanted [the last]")
        ->check(CLI::NonNegativeNumber);
    replay->add_option("--threads", args.replay.threads, "Threads to replay with [one per core]")
        ->check(CLI::Range(1, 1024));
    replay->add_flag("--overwrite", args.replay.overwrite, "Replace the target");
    takes_ignored_keys(replay, args.replay.ignored_keys);
    CLI::App* inspect = add_verb(app, args, "inspect", kInspect, args.inspect.json);
    inspect->add_option("model", args.inspect.model, "Model folder")->required();
    inspect->add_flag("--tensors", args.inspect.tensors, "List every tensor");
    takes_ignored_keys(inspect, args.inspect.ignored_keys);
    CLI::App* doctor = add_verb(app, args, "doctor", kDoctor, args.doctor.json);
    doctor->add_option("--ssd,--ssd-dir", args.doctor.ssd_dir, "Folder whose drive is examined too");
    doctor->add_option("--device", args.doctor.device, "cuda or cuda:N: this device and its link are measured too");
    doctor->add_option("--threads", args.doctor.threads, "Threads to measure with")->check(CLI::Range(1, 1024));
    doctor->add_option("--save", args.doctor.save,
                       "File to write the machine to, for editing; plan --machine reads it");
    doctor->add_option("--machine", args.doctor.machine, "File or profile to show instead of measuring this machine");
    CLI::App* config = app.add_subcommand("config", kConfig);
    config->set_help_flag("-h,--help", "Print this help and leave");
    config->require_subcommand(1);
    CLI::App* from = add_verb(*config, args, "from", kConfig, args.config.json);
    from->add_option("file", args.config.file, "The other tool's file")->required();
    add_verb(app, args, "version", "Version, compiler, kernels.", args.version.json);
}

ExitCode dispatch(const CLI::App& app, Arguments& args) {
    if (args.quiet) set_log_level(LogLevel::warning);
    const CLI::App* verb = app.get_subcommands().front();
    const std::string& name = verb->get_name();
    const std::vector<std::string> words = verb->remaining();
    if (name == "plan") return args.plan.words = words, run_plan(args.plan);
    if (name == "train") return args.train.words = words, run_train(args.train);
    if (name == "eval") return args.eval.words = words, run_eval(args.eval);
    if (name == "generate") return args.generate.words = words, run_generate(args.generate);
    if (name == "chat") return args.chat.words = words, run_chat(args.chat);
    if (name == "data") return args.data.words = words, run_data(args.data);
    if (name == "export") return run_export(args.to_export);
    if (name == "replay") return run_replay(args.replay);
    if (name == "inspect") return run_inspect(args.inspect);
    if (name == "doctor") return run_doctor(args.doctor);
    if (name == "config") return run_config(args.config);
    return run_version(args.version);
}

// What people type who know other trainers.
struct OtherVerb {
    std::string_view verb, instead;
};
constexpr const char* kServe =
    "windlass generate RUN --prompt TEXT, or a server that reads RUN/final, such as vllm serve";
constexpr const char* kAnswer = "windlass generate RUN --prompt TEXT, or windlass chat RUN";
constexpr OtherVerb kOtherVerbs[] = {{"serve", kServe},
                                     {"server", kServe},
                                     {"api", kServe},
                                     {"webchat", kServe},
                                     {"webui", kServe},
                                     {"talk", kAnswer},
                                     {"infer", kAnswer},
                                     {"inference", kAnswer},
                                     {"predict", kAnswer},
                                     {"sft", "windlass train"},
                                     {"finetune", "windlass train"},
                                     {"fine-tune", "windlass train"},
                                     {"evaluate", "windlass eval"},
                                     {"merge", "windlass export RUN --to FOLDER"},
                                     {"convert", "windlass export RUN --to FOLDER"},
                                     {"resume", "windlass train RUN/run.yaml --resume"}};

// Throws for a first word that is no verb, naming what it is called here, the nearest, or those that there are.
void check_verb(const CLI::App& app, const std::string& word) {
    if (word.starts_with('-')) return;
    std::vector<std::string> verbs;
    for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
        verbs.push_back(verb->get_name());
    if (std::find(verbs.begin(), verbs.end(), word) != verbs.end()) return;
    const UserError error(ExitCode::usage, word, "there is no such verb");
    for (const OtherVerb& other : kOtherVerbs)
        if (other.verb == word) throw UserError(error).hint(other.instead);
    const std::vector<std::string_view> names(verbs.begin(), verbs.end());
    const std::string_view near = nearest_name(word, names);
    throw UserError(error).hint(near.empty() ? fmt::format("{}, or windlass --help", fmt::join(verbs, ", "))
                                             : fmt::format("windlass {}, or windlass --help", near));
}

// The words as the parser takes them: "help VERB" is "VERB --help", "--version" is the verb.
std::vector<std::string> parsed_words(int argc, char** argv) {
    std::vector<std::string> words(argv + 1, argv + argc);
    if (words.empty()) words = {"--help"};
    if (words[0] == "--version" || words[0] == "-V") words[0] = "version";
    if (words[0] != "help") return words;
    if (words.size() == 1) return {"--help"};
    return {words[1], "--help"};
}

ExitCode run(int argc, char** argv) {
    CLI::App app(kTop, "windlass");
    Arguments args;
    app.set_help_flag("-h,--help", "Print this help and leave");
    app.formatter(std::make_shared<HelpFormatter>());
    app.require_subcommand(1);
    app.footer(kExitCodes);
    add_config_verbs(app, args);
    add_other_verbs(app, args);
    std::vector<std::string> words = parsed_words(argc, argv);
    check_verb(app, words[0]);
    const std::string first = words[0];
    std::reverse(words.begin(), words.end());  // as the parser wants them
    try {
        app.parse(std::move(words));
    } catch (const CLI::CallForHelp&) {
        fmt::print("{}", app.help());  // of the verb, where one was named
        return ExitCode::ok;
    } catch (const CLI::ParseError& error) {
        throw UserError(ExitCode::usage, "command line", "{}", error.what())
            .hint(first.starts_with('-') ? "windlass --help" : fmt::format("windlass {} --help", first));
    }
    return dispatch(app, args);
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    using namespace windlass;
    try {
        take_signals();  // before any other thread
        const TerminalStyle style = terminal_style(2);
        const ActivityDisplay display({style.interactive, style.color, style.columns});
        return static_cast<int>(run(argc, argv));
    } catch (const Error& error) {
        log_line(LogLevel::error, error.what());
        return static_cast<int>(error.code());
    } catch (const std::bad_alloc&) {
        log_line(LogLevel::error,
                 "memory: the system refuses more. Try: a larger --ram, or a smaller --per-device-train-batch-size");
        return static_cast<int>(ExitCode::no_fit);
    } catch (const std::exception& error) {
        log_line(LogLevel::error, fmt::format("internal: {}", error.what()));
        return static_cast<int>(ExitCode::internal);
    }
}
