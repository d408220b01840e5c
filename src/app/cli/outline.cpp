#include "app/cli/outline.h"

#include <CLI/CLI.hpp>

#include "app/cli/help.h"
#include "base/embedded_text.h"
#include "config/config_keys.h"
#include "config/config_readers.h"
#include "config/preset.h"
#include "model/adapters/adapter.h"
#include "schedule/machine_profiles.h"
#include "task/task.h"

namespace windlass {
namespace {

constexpr std::string_view kOneOf = ":one of ";  // flags.cpp describes the words of a flag so

std::vector<std::string> split_words(std::string_view text, char separator) {
    std::vector<std::string> words;
    while (!text.empty()) {
        const size_t end = std::min(text.find(separator), text.size());
        words.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return words;
}

std::vector<std::string> names_of_texts(std::span<const EmbeddedText> texts) {
    std::vector<std::string> names;
    for (const EmbeddedText& text : texts) names.emplace_back(text.name);
    return names;
}

std::vector<std::string> names_of_adapters() {
    std::vector<std::string> names;
    for (const AdapterKind* const kind : all_adapters()) names.emplace_back(kind->name);
    names.emplace_back("qlora");  // lora, over weights in 4 bits
    return names;
}

bool is_number_type(std::string_view type) {
    return type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT");
}

FlagValue value_of_option(const CLI::Option& option) {
    if (option.get_items_expected_max() == 0) return FlagValue::after_equals;
    if (option.get_items_expected_min() == 0) return FlagValue::optional;
    return is_number_type(option.get_type_name()) ? FlagValue::number : FlagValue::text;
}

FlagOutline outline_of_option(const CLI::Option& option) {
    FlagOutline flag{.label = flag_label(option), .text = option.get_description(), .value = value_of_option(option)};
    for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
    const std::string type = option.get_type_name();
    if (const size_t at = type.find(kOneOf); at != std::string::npos)
        flag.values = split_words(std::string_view(type).substr(at + kOneOf.size()), '|');
    else if (!flag.names.empty())
        flag.values = suggested_values(std::string_view(flag.names.back()).substr(2));
    return flag;
}

void add_outline(const CLI::App& verb, const std::string& name, Outline& outline) {
    VerbOutline& made = outline.verbs.emplace_back(VerbOutline{.name = name});
    for (const CLI::Option* const option : verb.get_options()) {
        FlagOutline flag = outline_of_option(*option);
        if (option->get_required() && !flag.names.empty()) flag.text += " (required)";
        if (!option->get_group().empty()) (flag.names.empty() ? made.words : made.flags).push_back(std::move(flag));
    }
    const ConfigReaders reader = reader_of_verb(name);
    for (const ConfigKey& key : config_keys())
        if ((readers_of_key(key.name) & reader) != 0) made.keys.push_back(&key);
    const std::vector<const CLI::App*> inner = verb.get_subcommands([](const CLI::App*) { return true; });
    if (inner.empty()) return;
    made.has_verbs = true;
    FlagOutline& word = made.words.emplace_back(FlagOutline{.label = "verb"});
    for (const CLI::App* const each : inner) word.values.push_back(each->get_name());
    for (const CLI::App* const each : inner) add_outline(*each, name + " " + each->get_name(), outline);
}

}  // namespace

std::string flag_label(const CLI::Option& option) {
    if (option.get_positional() && option.get_lnames().empty()) return option.get_name(true);
    std::vector<std::string> names;
    for (const std::string& name : option.get_snames()) names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
    std::string label = fmt::format("{}", fmt::join(names, ", "));
    if (option.get_items_expected_max() == 0) return label;
    const std::string type = option.get_type_name();
    const std::string word = type.substr(0, type.find(':'));
    const char* const form = option.get_items_expected_min() == 0 ? " [{}]" : " {}";
    return label + fmt::format(fmt::runtime(form), is_number_type(word) ? "N" : word.empty() ? "TEXT" : word);
}

Outline outline_of(const CLI::App& app) {
    Outline outline{.topics = names_of_topics()};
    for (const CLI::App* const verb : app.get_subcommands([](const CLI::App*) { return true; }))
        add_outline(*verb, verb->get_name(), outline);
    return outline;
}

std::vector<std::string> suggested_values(std::string_view name) {
    if (name == "preset") return names_of_texts(preset_texts());
    if (name == "task") return names_of_texts(task_texts());
    if (name == "machine") return names_of_texts(machine_profiles());
    if (name == "adapter") return names_of_adapters();
    if (name == "device") return {"cpu", "cuda"};
    return {};
}

std::vector<std::string> values_of_key(const ConfigKey& key) {
    if (std::holds_alternative<bool Config::*>(key.field)) return {"true", "false"};
    if (!key.choices.empty()) return {key.choices.begin(), key.choices.end()};
    return suggested_values(key.name);
}

FlagValue flag_value_of_key(const ConfigKey& key) {
    if (std::holds_alternative<bool Config::*>(key.field) || key.name == "resume") return FlagValue::after_equals;
    const bool is_text = std::holds_alternative<std::string Config::*>(key.field) ||
                         std::holds_alternative<std::vector<std::string> Config::*>(key.field);
    return is_text ? FlagValue::text : FlagValue::number;
}

}  // namespace windlass
