#include <fmt/ranges.h>

#include <algorithm>

#include "app/cli/outline.h"
#include "app/cli/shells.h"
#include "app/cli/verb_texts.h"
#include "config/config_keys.h"

namespace windlass {
namespace {

constexpr std::string_view kFishHead = R"fish(# Completes windlass in fish. Printed by: windlass completion fish

# The verb is among them; without any: no verb is there yet.
function __windlass_verb
    set -l words (commandline -opc)
    set -e words[1]
    if not set -q argv[1]
        not set -q words[1]
        return
    end
    for verb in $argv
        string match -q -- "$verb *" "$words " && return
    end
    return 1
end
# Settings as key=value, once a letter of one is there.
function __windlass_settings
    string length -q -- (commandline -ct) && printf '%s\n' $argv
end
)fish";

// A line for a flag, or for a word where `name` is empty. `verbs`: quoted, of whom it is.
std::string fish_line(const std::string& verbs, const std::string& name, std::string_view text, FlagValue value,
                      const std::vector<std::string>& values) {
    std::string line = fmt::format("complete -c windlass -n {}", single_quoted("__windlass_verb " + verbs));
    if (name.starts_with("--"))
        line += fmt::format(" -l {}", name.substr(2));
    else if (name.starts_with("-"))
        line += fmt::format(" -s {}", name.substr(1));
    // -x: a value follows, and is no file; -r: one follows; -f: one may follow after '='.
    const bool must_follow = !name.empty() && (value == FlagValue::number || value == FlagValue::text);
    if (!values.empty() || value == FlagValue::number)
        line += must_follow ? " -x" : " -f";
    else if (must_follow)
        line += " -r";
    if (!values.empty()) line += fmt::format(" -a {}", single_quoted(fmt::format("{}", fmt::join(values, " "))));
    return text.empty() ? line + "\n" : fmt::format("{} -d {}\n", line, single_quoted(shown_text(text)));
}

std::string fish_verb(const VerbOutline& verb) {
    const std::string quoted = fmt::format("\"{}\"", verb.name);
    std::string lines;
    for (const FlagOutline& flag : verb.flags)
        for (const std::string& name : flag.names) lines += fish_line(quoted, name, flag.text, flag.value, flag.values);
    for (const FlagOutline& word : verb.words)
        if (!word.values.empty()) lines += fish_line(quoted, "", word.text, FlagValue::text, word.values);
    return lines;
}

// A flag, for all verbs that read the key.
std::string fish_key(const Outline& outline, const ConfigKey& key) {
    std::vector<std::string_view> verbs;
    for (const VerbOutline& verb : outline.verbs)
        if (std::ranges::find(verb.keys, &key) != verb.keys.end()) verbs.push_back(verb.name);
    const std::string names = fmt::format("{}", fmt::join(verbs, " "));
    std::vector<std::string> settings;
    for (const std::string& value : values_of_key(key)) settings.push_back(fmt::format("{}={}", key.name, value));
    if (settings.empty()) settings.push_back(fmt::format("{}=", key.name));
    return fish_line(names, config_flag(key.name), key.help, flag_value_of_key(key), values_of_key(key)) +
           fmt::format("complete -c windlass -n '__windlass_verb {}' -a '(__windlass_settings {})'\n", names,
                       fmt::join(settings, " "));
}

}  // namespace

std::string fish_completion(const Outline& outline) {
    std::string script(kFishHead);
    for (const VerbOutline& verb : outline.verbs) {
        if (verb.name.find(' ') == std::string::npos)
            script += fish_line("", "", text_of_verb(verb.name).sentence, FlagValue::text, {verb.name});
    }
    std::vector<std::string> outer;
    for (const VerbOutline& verb : outline.verbs) {
        script += fish_verb(verb);
        if (verb.name.find(' ') == std::string::npos) outer.push_back(verb.name);
    }
    script += fish_line("", "", "Prints the help of a verb, or a page of the guide.", FlagValue::text, {"help"});
    script += fish_line("help", "", "", FlagValue::text, outer);
    script += fish_line("help", "", "A page of the guide", FlagValue::text, outline.topics);
    script += fish_line("help", "--man", "Print the page of man(1)", FlagValue::after_equals, {});
    for (const ConfigKey& key : config_keys()) script += fish_key(outline, key);
    return script;
}

}  // namespace windlass
