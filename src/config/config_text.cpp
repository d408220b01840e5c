#include "base/units.h"
#include "config/config.h"
#include "config/config_keys.h"
#include "config/preset.h"

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

// Breaks a text into lines of at most `width` characters, at spaces.
std::vector<std::string> wrap(std::string_view text, size_t width) {
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
    std::string text =
        fmt::format("{} Start another one from it: windlass train run.yaml key=value ...\n", kRunConfigHead);
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
        "Made from the table of keys in `src/config/config_keys.cpp`; a test compares the two.\n\n"
        "Every key `a_b` is the same in a YAML file (`a_b: x`), as the flag `--a-b x` (or `--a_b x`), as the override\n"
        "`a_b=x`, and in the environment as `WINDLASS_A_B=x`. A flag wins over an override, that over the file, that "
        "over\n"
        "the environment, that over the preset, that over the default. Flags of true/false keys need no value, and\n"
        "`--no-a-b` is false. A list is `[x, y]`, or the flag several times. Unknown keys are errors. Sizes are "
        "numbers "
        "with a\n"
        "unit (`4GiB`, `512MB`) or shares (`80%`).\n";
    const Config defaults;
    std::string_view group;
    for (const ConfigKey& key : config_keys()) {
        if (key.group != group) {
            text += fmt::format(
                "\n## {}\n\n| key | type | default | meaning | also read as |\n| --- | --- | --- | --- | --- |\n",
                group = key.group);
        }
        text +=
            fmt::format("| `{}` | {} | `{}` | {} | {} |\n", key.name, config_type_name(key),
                        config_value_text(key, defaults), markdown_cell(full_help(key)), fmt::join(key.aliases, ", "));
    }
    return text + preset_reference();
}

std::string config_help(int columns) {
    constexpr size_t kIndent = 36;
    const size_t width = static_cast<size_t>(std::clamp(columns, 72, 120)) - kIndent;
    const Config defaults;
    std::string text;
    std::string_view group;
    for (const ConfigKey& key : config_keys()) {
        if (key.group != group) text += fmt::format("\n{}:\n", group = key.group);
        const std::string value = config_value_text(key, defaults);
        const bool has_default = value != "null" && value != "[]";
        const std::vector<std::string> lines =
            wrap(has_default ? fmt::format("{} [{}]", full_help(key), value) : full_help(key), width);
        for (size_t i = 0; i < lines.size(); ++i) {
            const std::string flag = i == 0 ? "  " + config_flag(key.name) : "";
            text += fmt::format("{:<{}}{}\n", flag, kIndent, lines[i]);
        }
    }
    text += "\nPresets (--preset NAME):\n";
    for (const EmbeddedText& each : preset_texts()) {
        const std::vector<std::string> lines = wrap(parse_preset(each.text, each.name).paper, width);
        for (size_t i = 0; i < lines.size(); ++i)
            text += fmt::format("  {:<{}}{}\n", i == 0 ? each.name : "", kIndent - 2, lines[i]);
    }
    return text;
}

}  // namespace windlass
