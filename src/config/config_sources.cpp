#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/file_error.h"
#include "base/printable.h"
#include "config/config.h"
#include "config/config_keys.h"
#include "config/foreign/recognise.h"
#include "config/key_advice.h"
#include "config/param_group_text.h"
#include "config/preset.h"
#include "config/run_place.h"
#include "rows/data_files.h"

namespace windlass {
namespace {

constexpr size_t kListMax = 10000;

// {match: "*norm*", weight_decay: 0}, as the line that says the same.
std::string group_line(const YAML::Node& node, const std::string& where) {
    std::vector<std::pair<std::string, std::string>> members;
    for (const auto& pair : node) {
        if (!pair.first.IsScalar() || !pair.second.IsScalar())
            throw UserError(ExitCode::usage, where, "a parameter group holds single values only");
        members.emplace_back(pair.first.Scalar(), pair.second.Scalar());
    }
    return param_group_line(members, where);
}

// What is wrong with a member of a list; empty when nothing is.
std::string add_member(const YAML::Node& node, ConfigEntry& entry) {
    const ConfigKey* const key = find_config_key(entry.key);
    if (node.IsMap() && key != nullptr && key->name == "param_groups") {
        entry.values.push_back(group_line(node, entry.where));
    } else if (node.IsScalar()) {
        entry.values.push_back(node.Scalar());
    } else if (key != nullptr && (key->name == "train_data" || key->name == "eval_data")) {
        return fmt::format(
            "a list may hold single values only. Try: {}: [FILE, ...]; formats are found by the rows' keys", key->name);
    } else {
        return "a list may hold single values only";
    }
    return "";
}

std::string add_members(const YAML::Node& list, ConfigEntry& entry) {
    if (list.size() > kListMax) return fmt::format("more than {} members", kListMax);
    for (const YAML::Node& member : list) {
        if (std::string problem = add_member(member, entry); !problem.empty()) return problem;
    }
    return "";
}

// {q_proj: 8}, as the lines that say the same.
std::string add_pairs(const YAML::Node& map, Pairs pairs, ConfigEntry& entry) {
    for (const auto& pair : map) {
        ConfigEntry values;
        if (pair.second.IsScalar())
            values.values.push_back(pair.second.Scalar());
        else if (pairs == Pairs::one_value || !pair.second.IsSequence())
            return "a pattern has one number";
        else if (std::string problem = add_members(pair.second, values); !problem.empty())
            return problem;
        if (!pair.first.IsScalar()) return "a pattern has one number";
        if (values.values.empty()) return fmt::format("{} has no value", pair.first.Scalar());
        for (const std::string& value : values.values)
            entry.values.push_back(fmt::format("{}={}", pair.first.Scalar(), value));
        if (entry.values.size() > kListMax) return fmt::format("more than {} members", kListMax);
    }
    return "";
}

Pairs pairs_of(const std::string& name) {
    const ConfigKey* const key = find_config_key(name);
    return key == nullptr ? Pairs::none : key->pairs;
}

ConfigEntry read_entry(const std::string& key, const YAML::Node& value, std::string where) {
    ConfigEntry entry{.key = key, .where = std::move(where)};
    entry.is_list = value.IsSequence();
    entry.is_null = value.IsNull();
    if (entry.is_list) {
        entry.problem = add_members(value, entry);
    } else if (value.IsScalar()) {
        entry.values.push_back(value.Scalar());
    } else if (value.IsMap() && pairs_of(key) != Pairs::none) {
        entry.is_list = true;
        entry.problem = add_pairs(value, pairs_of(key), entry);
    } else if (!entry.is_null) {
        entry.is_list = true;
        entry.problem = "keys are flat, but this one holds other keys. Try: move them to the top level";
    }
    return entry;
}

// "train_data=[a, b]": a value in brackets is a YAML list.
ConfigEntry read_word(const std::string& key, const std::string& value, std::string where) {
    if (value.starts_with('[')) {
        try {
            return read_entry(key, YAML::Load(value), where);
        } catch (const YAML::Exception& error) {
            throw UserError(ExitCode::usage, where, "\"{}\" is not a list: {}", excerpt(value), excerpt(error.msg));
        }
    }
    ConfigEntry entry{.key = key, .where = std::move(where)};
    entry.is_null = value == "null";
    if (!entry.is_null) entry.values.push_back(value);
    return entry;
}

bool is_boolean(const ConfigKey* key) {
    return key != nullptr && std::holds_alternative<bool Config::*>(key->field);
}

bool is_boolean_word(std::string_view word) {
    return word == "true" || word == "false";
}

// A flag given several times makes a list of lists' members: --train-data a --train-data b.
void add_flag(std::vector<ConfigEntry>& flags, ConfigEntry entry) {
    const ConfigKey* key = find_config_key(entry.key);
    const bool list = key != nullptr && std::holds_alternative<std::vector<std::string> Config::*>(key->field);
    for (ConfigEntry& earlier : flags) {
        if (!list || find_config_key(earlier.key) != key) continue;
        earlier.values.insert(earlier.values.end(), entry.values.begin(), entry.values.end());
        earlier.is_list = true;
        return;
    }
    flags.push_back(std::move(entry));
}

bool takes_files(const std::string& name) {
    const std::string_view key = find_config_key(name)->name;
    return key == "train_data" || key == "eval_data";
}

bool is_rows_file(const std::string& word) {
    return !word.starts_with('-') && word.find('=') == std::string::npos && has_rows_ending(word);
}

bool is_step(std::string_view word) {
    return !word.empty() && word.find_first_not_of("0123456789") == word.npos;
}

// A flag that needs no value takes one only after '=', or as true and false: what follows might be a file.
void refuse_loose_value(const std::string& name, const std::string& word) {
    std::string lower = word;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const std::string flag = config_flag(name);
    std::string meant;
    if (name == "resume") {
        const size_t dash = lower.rfind("checkpoint-");  // as transformers writes it
        const std::string step = dash == lower.npos ? lower : lower.substr(dash + std::string("checkpoint-").size());
        for (const char* const newest : {"auto", "last", "latest", "true", "yes"}) {
            if (lower == newest) meant = flag;
        }
        if (is_step(step.substr(0, step.find_last_not_of('/') + 1)))
            meant = fmt::format("{}={}", flag, step.substr(0, step.find_last_not_of('/') + 1));
        if (lower == "false" || lower == "no" || lower == "none") meant = fmt::format("leave {} out", flag);
    } else {
        for (const char* const on : {"true", "yes", "on", "1"}) {
            if (lower == on) meant = flag;
        }
        for (const char* const off : {"false", "no", "off", "0"}) {
            if (lower == off) meant = fmt::format("{}=false", flag);
        }
    }
    if (!meant.empty())
        throw UserError(ExitCode::usage, flag, "\"{}\" is not taken for its value, which follows a '='", word)
            .hint(meant);
}

// Reads the flag at words[i] and returns how many words it took.
size_t read_flag(std::span<const std::string> words, size_t i, std::vector<ConfigEntry>& flags) {
    const std::string_view word = std::string_view(words[i]).substr(2);
    const size_t equals = word.find('=');
    const std::string name(word.substr(0, equals));
    const std::string where = "--" + name;
    if (equals != std::string_view::npos) {
        add_flag(flags, read_word(name, std::string(word.substr(equals + 1)), where));
        return 1;
    }
    if ((name.starts_with("no-") || name.starts_with("no_")) && is_boolean(find_config_key(name.substr(3)))) {
        add_flag(flags, read_word(name.substr(3), "false", where));
        return 1;
    }
    const bool has_next = i + 1 < words.size();
    if (is_boolean(find_config_key(name)) || name == "resume") {
        const bool takes_next = name != "resume" && has_next && is_boolean_word(words[i + 1]);
        if (has_next && !takes_next) refuse_loose_value(name, words[i + 1]);
        add_flag(flags, read_word(name, takes_next ? words[i + 1] : name == "resume" ? "auto" : "true", where));
        return takes_next ? 2 : 1;
    }
    if (find_config_key(name) == nullptr) {  // make_config names it; what follows may be its value
        const bool takes_next = has_next && !words[i + 1].starts_with("--");
        add_flag(flags, read_word(name, takes_next && !words[i + 1].starts_with('[') ? words[i + 1] : "", where));
        return takes_next ? 2 : 1;
    }
    if (!has_next) throw UserError(ExitCode::usage, where, "a value is missing");
    add_flag(flags, read_word(name, words[i + 1], where));
    size_t taken = 2;
    // A shell expands a glob after a key of files into several words; no setting ends as a file of rows does.
    for (; takes_files(name) && i + taken < words.size() && is_rows_file(words[i + taken]); ++taken)
        add_flag(flags, read_word(name, words[i + taken], where));
    return taken;
}

constexpr std::string_view kVariablePrefix = "WINDLASS_";
// Variables of the program that are no keys: the kernels of another processor, and what tests set.
constexpr std::string_view kOtherVariables[] = {"WINDLASS_CPU", "WINDLASS_CUDA_LIBRARIES", "WINDLASS_WRITE_DOCS"};

std::string variable_of(std::string_view key) {
    std::string name = fmt::format("{}{}", kVariablePrefix, key);
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return name;
}

// The key that a variable of this name, which sets none, was probably to set; empty if no key is near.
std::string_view key_meant_by(const std::string& name) {
    std::string written = name.substr(kVariablePrefix.size());
    for (char& c : written) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (const ConfigKey* const key = find_config_key(written); key != nullptr) return key->name;
    if (const KeyAdvice* const advice = find_key_advice(written); advice != nullptr) return advised_key(*advice);
    const std::string_view near = nearest_config_key(written);
    return near.empty() ? near : find_config_key(near)->name;
}

void read_environment(ConfigSources& sources) {
    std::map<std::string, std::string> variables;  // sorted: the environment is in no order
    for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
        const std::string_view line = *at;
        const size_t equals = std::min(line.find('='), line.size());
        if (line.starts_with(kVariablePrefix))
            variables.emplace(line.substr(0, equals), line.substr(std::min(equals + 1, line.size())));
    }
    std::map<std::string, std::string_view> keys;
    for (const ConfigKey& key : config_keys()) {
        keys.emplace(variable_of(key.name), key.name);
        for (const std::string_view alias : key.aliases) keys.emplace(variable_of(alias), alias);
    }
    for (const auto& [name, value] : variables) {
        if (const auto key = keys.find(name); key != keys.end()) {
            sources.environment.push_back(read_word(std::string(key->second), value, name));
        } else if (std::ranges::find(kOtherVariables, name) == std::end(kOtherVariables)) {
            const std::string_view near = key_meant_by(name);
            sources.warnings.push_back(fmt::format("{}: the variable sets no key, and is ignored{}", name,
                                                   near.empty() ? "" : ". Try: " + variable_of(near)));
        }
    }
}

// The preset of the highest layer that names one; what is no name is left for make_config to refuse.
std::vector<ConfigEntry> read_preset(FileSystem& files, const ConfigSources& sources) {
    for (const auto* layer : {&sources.flags, &sources.overrides, &sources.file, &sources.environment}) {
        for (const ConfigEntry& entry : *layer) {
            const ConfigKey* key = find_config_key(entry.key);
            if (key == nullptr || key->name != "preset") continue;
            const bool names_one = !entry.is_null && !entry.is_list && !entry.values.front().empty();
            return names_one ? find_preset(files, entry.values.front()).keys : std::vector<ConfigEntry>();
        }
    }
    return {};
}

// Whether a value of this key is the path of something that is read; words such as "lora" and "auto" are none.
bool is_path_of_input(const ConfigEntry& entry, std::string_view key, const std::string& value) {
    if (key == "model" || takes_files(std::string(key))) return true;
    if (key == "adapter") return !is_adapter_name(value);
    if (key == "ssd_dir") return entry.of_run;  // another file may name a folder that is to be made
    return (key == "chat_template" || key == "task") && value.find_first_of("/.") != value.npos;
}

// Paths that are not there are looked for from the file's own folder.
void find_paths(FileSystem& files, const std::string& file, ConfigEntry& entry) {
    const ConfigKey* const key = find_config_key(entry.key);
    if (key == nullptr) return;
    for (std::string& value : entry.values) {
        if (is_path_of_input(entry, key->name, value)) value = found_from(files, value, parent_folder(file));
    }
}

}  // namespace

std::vector<ConfigEntry> read_config_file(FileSystem& files, const std::string& path) {
    if (!files.exists(path)) {
        throw UserError(ExitCode::usage, path, "there is no such configuration file")
            .hint("settings are --key value or key=value");
    }
    const std::string text = read_text(files, path, kConfigBytesMax);
    const bool is_of_run = require_run_format_in(text, path);
    std::vector<ConfigEntry> entries;
    try {
        const YAML::Node document = YAML::Load(text);
        if (document.IsNull()) return entries;
        if (!document.IsMap()) throw UserError(ExitCode::usage, path, "expected lines of the form \"key: value\"");
        for (const auto& pair : document) {
            const std::string where = fmt::format("{}:{}", path, pair.first.Mark().line + 1);
            if (!pair.first.IsScalar()) throw UserError(ExitCode::usage, where, "a key must be a word");
            entries.push_back(read_entry(pair.first.Scalar(), pair.second, where));
            entries.back().of_run = is_of_run;
            find_paths(files, path, entries.back());
        }
    } catch (const YAML::Exception& error) {
        throw UserError(ExitCode::usage, fmt::format("{}:{}", path, error.mark.line + 1), "not valid YAML: {}",
                        error.msg);
    }
    return entries;
}

ConfigSources read_config_sources(FileSystem& files, std::span<const std::string> words) {
    ConfigSources sources;
    read_environment(sources);
    std::string file;
    for (size_t i = 0; i < words.size();) {
        const std::string& word = words[i];
        const size_t equals = word.find('=');
        if (word.starts_with("--")) {
            i += read_flag(words, i, sources.flags);
            continue;
        }
        if (word.starts_with('-') && word.size() > 1)
            throw UserError(ExitCode::usage, word, "there is no such flag")
                .hint("settings are --key value or key=value");
        if (equals != std::string::npos && word.find('/') > equals) {
            add_flag(sources.overrides, read_word(word.substr(0, equals), word.substr(equals + 1), word));
        } else if (file.empty()) {
            file = word;
        } else {
            throw UserError(ExitCode::usage, word, "there is a configuration file already: {}", file)
                .hint("overrides as key=value or --key value");
        }
        ++i;
    }
    if (!file.empty()) {
        refuse_foreign_ending(file);
        file = config_file_of(files, file);
        sources.file = read_config_file(files, file);
        refuse_foreign_config(file, sources.file);
    }
    sources.file_path = file;
    sources.preset = read_preset(files, sources);
    return sources;
}

}  // namespace windlass
