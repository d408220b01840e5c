// What people type who know other programs: verbs and flags that have other names here.
#include <CLI/CLI.hpp>

#include "app/cli/flags.h"
#include "base/nearest.h"
#include "config/config_keys.h"
#include "config/key_advice.h"

namespace windlass {
namespace {

struct OtherVerb {
    std::string_view verb, instead;
    std::string_view why = "";
};
constexpr std::string_view kServe =
    "windlass generate RUN --prompt TEXT, or a server that reads RUN/final, such as vllm serve";
constexpr std::string_view kAnswerVerbs = "windlass generate RUN --prompt TEXT, or windlass chat RUN";
constexpr std::string_view kTrainVerb = "windlass train";
constexpr std::string_view kMerge = "windlass export RUN --to FOLDER";
constexpr std::string_view kLogs = "windlass status RUN --follow, or tail -f RUN/log.txt";
constexpr std::string_view kDownload = "hf download MODEL";
constexpr std::string_view kCalibrate = "windlass doctor";
constexpr std::string_view kPage = "windlass ui";
constexpr std::string_view kNoHub = "Windlass reads the Hugging Face cache and opens no connection";

constexpr OtherVerb kOtherVerbs[] = {
    {"serve", kServe},
    {"server", kServe},
    {"api", kServe},
    {"webchat", kServe},
    {"webui", kPage},
    {"talk", kAnswerVerbs},
    {"infer", kAnswerVerbs},
    {"inference", kAnswerVerbs},
    {"predict", kAnswerVerbs},
    {"run", kAnswerVerbs},
    {"sft", kTrainVerb},
    {"dpo", "windlass train --objective dpo"},
    {"orpo", "windlass train --objective orpo"},
    {"lora", "windlass train --adapter lora"},
    {"qlora", "windlass train --adapter qlora"},
    {"finetune", kTrainVerb},
    {"fine-tune", kTrainVerb},
    {"fit", kTrainVerb},
    {"pretrain", kTrainVerb},
    {"evaluate", "windlass eval"},
    {"perplexity", "windlass eval MODEL --data rows.jsonl"},
    {"merge", kMerge},
    {"merge-lora", "windlass export RUN --merged --to FOLDER"},
    {"convert", kMerge},
    {"fuse", "windlass export RUN --merged --to FOLDER"},
    {"quantize", "windlass export RUN --to NAME.gguf --type q8_0"},
    {"gguf", "windlass export RUN --to NAME.gguf"},
    {"resume", "windlass train RUN/run.yaml --resume"},
    {"continue", "windlass train RUN/run.yaml --resume"},
    {"stop", "Ctrl-C in the run's terminal, or kill -INT PID: it finishes the step and saves"},
    {"gui", kPage},
    {"web", kPage},
    {"page", kPage},
    {"dashboard", kPage},
    {"tensorboard", "tensorboard --logdir RUN"},
    {"list", "windlass runs"},
    {"ps", "windlass runs"},
    {"watch", "windlass status RUN --follow"},
    {"log", kLogs},
    {"logs", kLogs},
    {"completions", "windlass completion bash, zsh or fish"},
    {"autocomplete", "windlass completion bash, zsh or fish"},
    {"schema", "windlass config schema"},
    {"man", "windlass help --man VERB"},
    {"docs", "windlass help topics"},
    {"guide", "windlass help topics"},
    {"topics", "windlass help topics"},
    {"download", kDownload, kNoHub},
    {"pull", kDownload, kNoHub},
    {"upload", "hf upload OWNER/NAME RUN/final", kNoHub},
    {"push", "hf upload OWNER/NAME RUN/final", kNoHub},
    {"login", "hf auth login", kNoHub},
    {"bench", kCalibrate},
    {"benchmark", kCalibrate},
    {"estimate", "windlass plan --model MODEL"},
    {"estimate-memory", "windlass plan --model MODEL"},
    {"tokenize", "windlass data show --model MODEL --train-data rows.jsonl"},
    {"preprocess", "windlass data check run.yaml"},
    {"validate", "windlass train run.yaml --dry-run"},
    {"env", kCalibrate},
    {"info", "windlass inspect MODEL"},
    {"show", "windlass inspect MODEL"},
    {"presets", "windlass version"},
    {"translate", "windlass config from FILE > run.yaml"},
    {"import", "windlass config from FILE > run.yaml"},
};

// A flag of other programs: what does its work here. "{TEXT}" is an example, and gives way to what was written.
struct OtherFlag {
    std::string_view verbs, flag, instead;
};
constexpr std::string_view kTalking = "generate chat";
constexpr std::string_view kCopying = "export replay";
constexpr OtherFlag kOtherFlags[] = {
    {kTalking, "temp", "--temperature {0.8}"},
    {kTalking, "t", "--temperature {0.8}"},
    {kTalking, "do-sample", "--temperature 0.8"},
    {kTalking, "n-predict", "--max-new-tokens {128}"},
    {kTalking, "num-predict", "--max-new-tokens {128}"},
    {kTalking, "max-tokens", "--max-new-tokens {128}"},
    {kTalking, "n", "--max-new-tokens {128}"},
    {kTalking, "topk", "--top-k {40}"},
    {kTalking, "topp", "--top-p {0.95}"},
    {kTalking, "stop-sequence", "--stop {TEXT}"},
    {kTalking, "stop-strings", "--stop {TEXT}"},
    {"generate", "p", "--prompt {TEXT}"},
    {"generate", "text", "--prompt {TEXT}"},
    {"generate", "input", "--prompt {TEXT}"},
    {"generate", "message", "--chat --prompt {TEXT}"},
    {"generate", "f", "--prompt - < FILE"},
    {"generate", "file", "--prompt - < FILE"},
    {"generate", "prompt-file", "--prompt - < FILE"},
    {"generate", "interactive", "windlass chat MODEL"},
    {"generate", "conversation", "windlass chat MODEL"},
    {"chat", "system-prompt", "--system {TEXT}"},
    {"chat", "sys", "--system {TEXT}"},
    {kCopying, "output", "--to {FOLDER}"},
    {kCopying, "output-dir", "--to {FOLDER}"},
    {kCopying, "out", "--to {FOLDER}"},
    {kCopying, "outfile", "--to {NAME.gguf}"},
    {kCopying, "o", "--to {FOLDER}"},
    {kCopying, "outtype", "--type {q8_0}"},
    {kCopying, "quantize", "--type q8_0"},
    {kCopying, "quantization", "--type q8_0"},
    {kCopying, "force", "--overwrite"},
    {"export", "merge", "--merged"},
    {"export", "merge-lora", "--merged"},
    {"export", "shard-size", "--max-shard-size {5GB}"},
    {"export", "torch-dtype", "--dtype {bf16}"},
    {"eval", "num-fewshot", "--shots {5}"},
    {"eval", "n-shot", "--shots {5}"},
    {"eval", "tasks", "--task {sst2}"},
    {"eval", "limit", "--eval-samples {100}"},
    {"eval", "test-data", "--data {rows.jsonl}"},
    {"data", "num-samples", "--samples {3}"},
    {"data", "n", "--samples {3}"},
    {"plan", "fast", "--alone"},
    {"plan", "no-compare", "--alone"},
    {"train", "profile", "--trace step.json"},
    {"plan train data eval", "config", "the file's name alone: windlass VERB run.yaml"},
    {"plan train data", "m", "--model {MODEL}"},
    {"plan train data", "o", "--output-dir {runs/first}"},
    {"plan train data eval generate chat", "j", "--threads {4}"},
    {"", "silent", "--quiet"},
};

bool is_of_verb(std::string_view verbs, std::string_view verb) {
    for (size_t begin = 0; begin < verbs.size();) {
        const size_t end = std::min(verbs.find(' ', begin), verbs.size());
        if (verbs.substr(begin, end - begin) == verb) return true;
        begin = end + 1;
    }
    return verbs.empty();
}

const OtherFlag* find_other_flag(std::string_view verb, std::string_view flag) {
    for (const OtherFlag& each : kOtherFlags)
        if (each.flag == flag && is_of_verb(each.verbs, verb)) return &each;
    return nullptr;
}

// With what was written in place of the example.
std::string typed_flag(std::string_view instead, const std::string& value) {
    const size_t open = instead.find('{'), close = instead.find('}');
    if (open == std::string_view::npos) return std::string(instead);
    const std::string_view example = instead.substr(open + 1, close - open - 1);
    return fmt::format("{}{}", instead.substr(0, open), value.empty() ? example : value);
}

std::string dashed(std::string_view name) {
    std::string made(name);
    std::ranges::replace(made, '_', '-');
    return made;
}

bool has_flag(const CLI::App& verb, const std::string& name) {
    return verb.get_option_no_throw("--" + name) != nullptr;
}

// The verb's own flag that is nearest; empty where a key of the configuration is nearer, or nothing near.
std::string nearest_flag(const CLI::App& verb, const std::string& name) {
    std::vector<std::string_view> own;
    for (const CLI::Option* option : verb.get_options())
        for (const std::string& each : option->get_lnames()) own.push_back(each);
    std::vector<std::string> keys;
    if (verb.get_allow_extras())
        for (const ConfigKey& key : config_keys()) keys.push_back(dashed(key.name));
    std::vector<std::string_view> all = own;
    all.insert(all.end(), keys.begin(), keys.end());
    const std::string_view near = nearest_name(name, all);
    return std::ranges::find(own, near) == own.end() ? "" : std::string(near);
}

// The value of a flag at words[i]; empty if it has no value.
std::string value_of_flag(const std::vector<std::string>& words, size_t i) {
    const size_t equals = words[i].find('=');
    if (equals != std::string::npos) return words[i].substr(equals + 1);
    return i + 1 < words.size() && !words[i + 1].starts_with('-') ? words[i + 1] : "";
}

// A word "--name" or "-name" that is no flag of the verb.
void check_flag(const CLI::App& verb, const std::vector<std::string>& words, size_t i) {
    const std::string written = words[i].substr(0, words[i].find('='));
    const std::string name = dashed(written.substr(written.find_first_not_of('-')));
    const bool takes_keys = verb.get_allow_extras();
    const auto refuse = [&](const std::string& instead) {
        throw UserError(ExitCode::usage, written, "windlass {} has no such flag", verb.get_name()).hint(instead);
    };
    if (const OtherFlag* const other = find_other_flag(verb.get_name(), name); other != nullptr)
        refuse(typed_flag(other->instead, value_of_flag(words, i)));
    const bool is_key = takes_keys && (find_config_key(name) != nullptr || name.starts_with("no-") ||
                                       name == "resume" || find_key_advice(name) != nullptr);
    if (is_key) {
        if (!written.starts_with("--")) refuse("--" + name);
        return;  // the configuration's
    }
    if (const std::string near = nearest_flag(verb, name); !near.empty()) refuse("--" + near);
    if (!takes_keys || !written.starts_with("--")) refuse(fmt::format("windlass {} --help", verb.get_name()));
}

const CLI::App* find_verb(const CLI::App& app, const std::string& name) {
    const auto found = app.get_subcommands([&](const CLI::App* verb) { return verb->get_name() == name; });
    return found.empty() ? nullptr : found.front();
}

// A value that follows this flag may begin with a dash.
bool takes_value(const CLI::App& verb, const std::string& flag) {
    if (!flag.starts_with("--") || flag.find('=') != std::string::npos) return false;
    const CLI::Option* const option = verb.get_option_no_throw(flag);
    return option == nullptr || option->get_items_expected_max() > 0;
}

bool is_number(const std::string& word) {
    return word.find_first_not_of("-+.0123456789eE") == std::string::npos;
}

}  // namespace

void check_verb(const CLI::App& app, const std::string& word, const std::vector<std::string>& topics) {
    if (word.starts_with('-')) return;
    std::vector<std::string> verbs;
    for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
        verbs.push_back(verb->get_name());
    if (std::ranges::find(verbs, word) != verbs.end()) return;
    for (const OtherVerb& other : kOtherVerbs) {
        if (other.verb != word) continue;
        throw UserError(ExitCode::usage, word, "there is no such verb{}{}", other.why.empty() ? "" : "; ", other.why)
            .hint(other.instead);
    }
    std::vector<std::string_view> names(verbs.begin(), verbs.end());
    names.insert(names.end(), topics.begin(), topics.end());
    const std::string_view near = nearest_name(word, names);
    if (!topics.empty())
        throw UserError(ExitCode::usage, word, "there is no such verb or topic")
            .hint(fmt::format("windlass help {}, or windlass --help", near.empty() ? "topics" : near));
    throw UserError(ExitCode::usage, word, "there is no such verb")
        .hint(near.empty() ? fmt::format("{}, or windlass --help", fmt::join(verbs, ", "))
                           : fmt::format("windlass {}, or windlass --help", near));
}

std::vector<std::string> with_known_flags(const CLI::App& app, std::vector<std::string> words) {
    const CLI::App* verb = find_verb(app, words[0]);
    if (verb == nullptr) return words;
    if (words.size() > 1)
        if (const CLI::App* const inner = find_verb(*verb, words[1]); inner != nullptr) verb = inner;
    for (size_t i = 1; i < words.size(); ++i) {
        std::string& word = words[i];
        if (word == "--") break;
        const bool is_short = !word.starts_with("--");
        if (!word.starts_with('-') || word.size() < 2 || is_number(word)) continue;
        if (is_short && takes_value(*verb, words[i - 1])) continue;
        if (verb->get_option_no_throw(word.substr(0, word.find('='))) != nullptr) continue;
        const size_t equals = std::min(word.find('='), word.size());
        const std::string name = dashed(word.substr(2, equals - 2));
        if (!is_short && has_flag(*verb, name))
            word = "--" + name + word.substr(equals);
        else
            check_flag(*verb, words, i);
    }
    return words;
}

}  // namespace windlass
