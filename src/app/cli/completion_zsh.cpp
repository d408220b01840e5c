#include <fmt/ranges.h>

#include <set>

#include "app/cli/outline.h"
#include "app/cli/shells.h"
#include "app/cli/verb_texts.h"
#include "config/config_keys.h"

namespace windlass {
namespace {

constexpr std::string_view kZshHead =
    "#compdef windlass\n"
    "# Completes windlass in zsh. Printed by: windlass completion zsh\n\n";

// Its flags, its words, and settings as key=value or files. `keys` is of the verb.
constexpr std::string_view kZshBody = R"zsh(
_windlass_setting() {
  if compset -P 1 '*='; then
    local -a values=( ${=_windlass_values[${${IPREFIX%=}//-/_}]} )
    if (( $#values )); then compadd -a values; else _files; fi
    return
  fi
  [[ -n $PREFIX ]] && compadd -q -S '=' -a keys
  _files
}
_windlass() {
  local curcontext=$curcontext verb=$words[2] inner key
  local -a keys specs
  if (( CURRENT == 2 )); then
    _describe -t verbs verb _windlass_verbs
    return
  fi
  shift words
  (( CURRENT-- ))
  if [[ $verb == help ]]; then
    _arguments '--man[Print the page of man(1)]' "*:verb or topic:(${(j: :)${(@)_windlass_verbs%%:*}} $_windlass_topics)"
    return
  fi
  inner="$verb $words[2]"
  if (( CURRENT > 2 )) && [[ -n ${_windlass_own[$inner]} ]]; then
    verb=$inner
    shift words
    (( CURRENT-- ))
  fi
  keys=( ${=_windlass_keys[$verb]} )
  for key in $keys; do specs+=( $_windlass_flag[$key] ); done
  eval "specs+=( $_windlass_own[$verb] )"
  (( $#specs )) && _arguments $specs
}
if [[ $funcstack[1] == _windlass ]]; then
  _windlass "$@"
else
  compdef _windlass windlass
fi
)zsh";

std::string escaped_for_zsh(std::string_view text, std::string_view special) {
    std::string escaped;
    for (const char c : text) {
        if (special.find(c) != special.npos) escaped += '\\';
        escaped += c;
    }
    return escaped;
}

// ":name:(a b)": what follows a flag, or is a word.
std::string zsh_action(std::string_view name, FlagValue value, const std::vector<std::string>& values) {
    const std::string known = fmt::format("({})", fmt::join(values, " "));
    const std::string_view other = value == FlagValue::number ? " " : "_files";
    return fmt::format(":{}:{}", escaped_for_zsh(name, ":"), values.empty() ? other : std::string_view(known));
}

// As _arguments takes a flag: "--name=-[text]::name:(a b)", whose value is part of the word.
std::string zsh_flag(const std::string& name, std::string_view text, FlagValue value,
                     const std::vector<std::string>& values) {
    const bool takes_value = value != FlagValue::after_equals || !values.empty();
    const std::string_view equals = !takes_value ? "" : value == FlagValue::after_equals ? "=-" : "=";
    const std::string_view optional = value == FlagValue::number || value == FlagValue::text ? "" : ":";
    return single_quoted(fmt::format(
        "*{}{}[{}]{}{}", name, equals, escaped_for_zsh(shown_text(text), "[]\\:"), takes_value ? optional : "",
        takes_value ? zsh_action(name.substr(name.find_first_not_of('-')), value, values) : ""));
}

std::string zsh_own(const VerbOutline& verb) {
    std::vector<std::string> specs;
    for (const FlagOutline& flag : verb.flags)
        for (const std::string& name : flag.names) specs.push_back(zsh_flag(name, flag.text, flag.value, flag.values));
    for (const FlagOutline& word : verb.words)
        specs.push_back(single_quoted(zsh_action(word.label, FlagValue::text, word.values)));
    if (!verb.keys.empty()) specs.emplace_back("'*:setting:_windlass_setting'");
    return fmt::format("{}", fmt::join(specs, " "));
}

}  // namespace

std::string zsh_completion(const Outline& outline) {
    std::string verbs, own, keys_of_verbs, flags, values;
    std::set<const ConfigKey*> keys;
    for (const VerbOutline& verb : outline.verbs) {
        if (verb.name.find(' ') == std::string::npos)
            verbs +=
                fmt::format("  {}\n", single_quoted(fmt::format("{}:{}", verb.name, text_of_verb(verb.name).sentence)));
        own += fmt::format("  {} {}\n", single_quoted(verb.name), single_quoted(zsh_own(verb)));
        std::vector<std::string_view> names;
        for (const ConfigKey* const key : verb.keys) names.push_back(key->name);
        if (!names.empty()) keys_of_verbs += fmt::format("  {} '{}'\n", verb.name, fmt::join(names, " "));
        keys.insert(verb.keys.begin(), verb.keys.end());
    }
    for (const ConfigKey& key : config_keys()) {
        if (!keys.contains(&key)) continue;
        const std::vector<std::string> known = values_of_key(key);
        flags += fmt::format("  {} {}\n", key.name,
                             zsh_flag(config_flag(key.name), key.help, flag_value_of_key(key), known));
        if (!known.empty()) values += fmt::format("  {} '{}'\n", key.name, fmt::join(known, " "));
    }
    return fmt::format(
        "{}typeset -ga _windlass_verbs=(\n{}  'help:Prints the help of a verb, or a page of the guide.'\n)\n"
        "typeset -g _windlass_topics='{}'\n"
        "typeset -gA _windlass_own=(\n{})\ntypeset -gA _windlass_keys=(\n{})\n"
        "typeset -gA _windlass_flag=(\n{})\ntypeset -gA _windlass_values=(\n{})\n{}",
        kZshHead, verbs, fmt::join(outline.topics, " "), own, keys_of_verbs, flags, values, kZshBody);
}

}  // namespace windlass
