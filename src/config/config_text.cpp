#include "base/units.h"
#include "config/config.h"
#include "config/config_keys.h"
#include "config/config_readers.h"
#include "config/preset.h"
#include "config/run_place.h"

namespace windlass {
namespace {

std::string markdown_cell(std::string_view text) {
    std::string cell;
    for (const char c : text) {
        if (c == '|') cell += '\\';
        cell += c;
    }
    return cell;
}

std::string full_help(const ConfigKey& key) {
    std::string help(key.help);
    if (!key.unit.empty()) help += fmt::format(" ({})", key.unit);
    if (!key.choices.empty()) help += fmt::format("; one of: {}", fmt::join(key.choices, ", "));
    return help;
}

std::string preset_reference() {
    std::string text =
        "\n## Presets\n\n"
        "A preset is the settings of a paper. It lies below everything else that is set, so any of its keys may be "
        "set\n"
        "otherwise; `run.yaml` names it and has the values that came of it. Another one is a JSON file of yours with a "
        "name,\n"
        "a paper and keys, as in `presets/`: `--preset mine.json`.\n\n"
        "| preset | settings | paper |\n| --- | --- | --- |\n";
    for (const EmbeddedText& each : preset_texts()) {
        const Preset preset = parse_preset(each.text, each.name);
        std::vector<std::string> settings;
        for (const ConfigEntry& entry : preset.keys)
            settings.push_back(fmt::format("`{}: {}`", entry.key, fmt::join(entry.values, ", ")));
        text += fmt::format("| `{}` | {} | {} |\n", preset.name, fmt::join(settings, ", "), preset.paper);
    }
    return text;
}

}  // namespace

std::string config_to_yaml(const Config& config) {
    std::string text = fmt::format("{}{}. Start another one from it: windlass train run.yaml key=value ...\n",
                                   kRunConfigHead, kRunFormat);
    std::string_view group;
    for (const ConfigKey& key : config_keys()) {
        if (key.group != group) text += fmt::format("\n# {}\n", group = key.group);
        text += fmt::format("{}: {}\n", key.name, config_value_text(key, config));
    }
    return text;
}

std::string config_reference() {
    std::string text =
        "# Configuration\n\n"
        "Every key `a_b` is the same in a YAML file (`a_b: x`), as the flag `--a-b x` (or `--a_b x`), as the override\n"
        "`a_b=x`, and in the environment as `WINDLASS_A_B=x`. A flag wins over an override, that over the file, that "
        "over\n"
        "the environment, that over the preset, that over the default. Flags of true/false keys need no value, and\n"
        "`--no-a-b` is false. A list is `[x, y]`, or the flag several times. Unknown keys are errors (variables: "
        "warnings). Sizes are "
        "numbers "
        "with a\n"
        "unit (`4GiB`, `512MB`) or shares (`80%`). \"Read by\" names the verbs that read a key: `windlass VERB "
        "--help-all`\n"
        "lists those of one verb.\n\n"
        "Made from the table of keys in `src/config/config_keys.cpp`; a test compares the two.\n";
    const Config defaults;
    std::string_view group;
    for (const ConfigKey& key : config_keys()) {
        if (key.group != group) {
            text += fmt::format(
                "\n## {}\n\n| key | type | default | meaning | read by | also read as |\n| --- | --- | --- | --- | --- "
                "| --- |\n",
                group = key.group);
        }
        text += fmt::format("| `{}` | {} | `{}` | {} | {} | {} |\n", key.name, config_type_name(key),
                            config_value_text(key, defaults), markdown_cell(full_help(key)),
                            readers_text(readers_of_key(key.name)), fmt::join(key.aliases, ", "));
    }
    return text + preset_reference();
}

}  // namespace windlass
