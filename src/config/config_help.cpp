#include "config/config_help.h"

#include "base/error.h"
#include "config/config_keys.h"
#include "config/config_readers.h"
#include "config/preset.h"

namespace windlass {
namespace {

// What --help says of the keys that matter most; the table of keys says it in full.
struct BriefKey {
    std::string_view key, verbs, text;
};
constexpr BriefKey kBriefKeys[] = {
    {"model", "plan train data", "Model folder, or its id in the Hugging Face cache"},
    {"train_data", "train data", "Rows to train on: files, folders, patterns"},
    {"output_dir", "train", "Folder of the run"},
    {"task", "eval", "What the rows ask: sst2, squad, ..., or a JSON file"},
    {"objective", "eval data", "loss; dpo or orpo for pairs of answers"},
    {"eval_samples", "eval", "Rows to evaluate, chosen by the seed"},
    {"max_length", "plan train eval chat data", "Longest row, in tokens"},
    {"truncation", "data", "What happens to longer rows"},
    {"chat_template", "chat data", "auto (the model's own), none, or a .jinja file"},
    {"train_turns", "data", "Messages that are trained: assistant, last, all"},
    {"preset", "plan train", "Settings of a paper: lora, qlora, lomo, ..."},
    {"method", "plan train", "adamw, lomo, adalomo, zeroth_order, ..."},
    {"adapter", "plan train", "lora, qlora, ia3 or lsp; without it all is trained"},
    {"learning_rate", "train", "Peak learning rate"},
    {"num_train_epochs", "train", "Passes over the rows; --max-steps sets steps"},
    {"per_device_train_batch_size", "plan train eval", "Rows of a micro-batch"},
    {"ram", "plan train eval generate chat", "Memory that may be used, such as 8GiB"},
    {"device", "plan train eval generate chat", "cpu, cuda or cuda:N"},
    {"device_memory", "plan train eval generate chat", "Memory of the device that may be used"},
    {"ssd_dir", "plan train eval generate chat", "Folder on a fast disk for what memory cannot hold"},
    {"machine", "plan", "Another machine to plan for: rtx4090-desktop, ..."},
    {"dtype", "eval generate chat", "bf16 or f32"},
    {"weight_storage", "eval generate chat", "Weights as_file, in 8 bits (f8) or 4 (nf4)"},
    {"seed", "generate chat", "Seed of random choices"},
    {"threads", "eval generate chat", "Worker threads"},
    {"resume", "train", "Continue the run in output_dir"}};

constexpr size_t kHelpIndent = 26;
constexpr size_t kWholeIndent = 36;
constexpr size_t kColumnsMost = 120, kColumnsLeast = 72;

bool is_among(std::string_view words, std::string_view word) {
    while (!words.empty()) {
        const size_t space = words.find(' ');
        if (words.substr(0, space) == word) return true;
        words = space == std::string_view::npos ? "" : words.substr(space + 1);
    }
    return false;
}

size_t width_of(int columns) {
    return std::clamp(static_cast<size_t>(std::max(columns, 0)), kColumnsLeast, kColumnsMost);
}

// "  --flag     text", the text in its own column; a flag that reaches into that has a line of its own.
std::string help_entry(const std::string& flag, std::string_view text, size_t indent, size_t width) {
    const std::vector<std::string> lines = wrapped(text, width - indent);
    std::string made = fmt::format("  {}", flag);
    const bool has_room = made.size() + 2 <= indent;
    made = has_room ? fmt::format("{:<{}}{}\n", made, indent, lines[0])
                    : fmt::format("{}\n{:<{}}{}\n", made, "", indent, lines[0]);
    for (size_t i = 1; i < lines.size(); ++i) made += fmt::format("{:<{}}{}\n", "", indent, lines[i]);
    return made;
}

std::string keys_help(ConfigReaders readers, bool with_readers, int columns) {
    std::string text;
    std::string_view group;
    for (const ConfigKey& key : config_keys()) {
        if ((readers_of_key(key.name) & readers) == 0) continue;
        if (key.group != group) text += fmt::format("\n{}:\n", group = key.group);
        std::string about = config_key_text(key);
        if (with_readers) about += fmt::format(". Read by: {}", readers_text(readers_of_key(key.name)));
        text += help_entry(config_flag(key.name), about, kWholeIndent, width_of(columns));
    }
    text += "\nPresets (--preset NAME):\n";
    for (const EmbeddedText& each : preset_texts())
        text += help_entry(std::string(each.name), parse_preset(each.text, each.name).paper, kHelpIndent,
                           width_of(columns));
    return text;
}

}  // namespace

std::string config_key_text(const ConfigKey& key) {
    std::string help(key.help);
    if (!key.unit.empty()) help += fmt::format(" ({})", key.unit);
    if (!key.choices.empty()) help += fmt::format("; one of: {}", fmt::join(key.choices, ", "));
    const std::string value = config_value_text(key, Config());
    if (value != "null" && value != "[]") help += fmt::format(" [{}]", value);
    return help;
}

std::vector<std::string> wrapped(std::string_view text, size_t width) {
    std::vector<std::string> lines(1);
    while (!text.empty()) {
        const size_t space = text.find(' ');
        const std::string_view word = text.substr(0, space);
        text = space == std::string_view::npos ? "" : text.substr(space + 1);
        if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
        if (!lines.back().empty()) lines.back() += ' ';
        lines.back() += word;
    }
    return lines;
}

std::string brief_config_help(std::string_view verb, int columns) {
    const ConfigReaders reader = reader_of_verb(verb);
    if (reader == 0) return "";
    std::string text = "\nSettings that matter most:\n";
    for (const BriefKey& each : kBriefKeys)
        if (is_among(each.verbs, verb))
            text += help_entry(config_flag(each.key), each.text, kHelpIndent, width_of(columns));
    int64_t count = 0;
    for (const ConfigKey& key : config_keys()) count += (readers_of_key(key.name) & reader) != 0 ? 1 : 0;
    const std::string more = fmt::format(
        "{} reads {} settings: as --flags, as key=value, or as \"key: value\" in run.yaml. windlass {} --help-all "
        "lists them.",
        verb, count, verb);
    text += "\n";
    for (const std::string& line : wrapped(more, width_of(columns))) text += line + "\n";
    return text;
}

std::string whole_config_help(std::string_view verb, int columns) {
    const ConfigReaders reader = reader_of_verb(verb);
    return reader == 0 ? "" : keys_help(reader, false, columns);
}

std::string config_help(int columns) {
    return keys_help(~ConfigReaders{0}, true, columns);
}

}  // namespace windlass
