// Bash splits words at '=', so the name that gets a value is one or two words back.
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "app/cli/outline.h"
#include "app/cli/shells.h"
#include "config/config_keys.h"

namespace windlass {
namespace {

constexpr std::string_view kBashHead =
    "# Completes windlass in bash. Printed by: windlass completion bash\n"
    "# shellcheck shell=bash disable=SC2034,SC2207\n\n";

constexpr std::string_view kBashBody = R"bash(
_windlass() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]}
    local flags='' keys='' words='' takes='' values='' name='' after_equals='' has_verbs='' place=2
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "$_windlass_verbs help --help --help-all --version" -- "$cur"))
        return
    fi
    if [[ $verb == help ]]; then
        COMPREPLY=($(compgen -W "$_windlass_verbs $_windlass_topics --man" -- "$cur"))
        return
    fi
    _windlass_of_verb "$verb"
    if [[ -n $has_verbs ]] && ((COMP_CWORD > 2)); then
        verb="$verb ${COMP_WORDS[2]}" place=3 flags='' words=''
        _windlass_of_verb "$verb"
    fi
    if [[ $cur == '=' ]]; then
        name=$prev cur='' after_equals=1
    elif [[ $prev == '=' ]]; then
        name=${COMP_WORDS[COMP_CWORD - 2]} after_equals=1
    elif [[ $prev == -* ]]; then
        name=$prev
    fi
    if [[ -n $name ]]; then
        name=${name#-} name=${name#-}
        _windlass_of_flag "$verb:${name//-/_}"
        if [[ -n $after_equals || $takes == number || $takes == text ]]; then
            [[ $takes == number ]] && compopt +o default 2>/dev/null
            COMPREPLY=($(compgen -W "$values" -- "$cur"))
            return  # without one, bash completes names of files
        fi
        [[ $takes == optional ]] && words=$values
    fi
    if [[ $cur == -* ]]; then
        local key
        for key in $keys; do flags+=" --${key//_/-}"; done
        COMPREPLY=($(compgen -W "$flags" -- "$cur"))
        return
    fi
    ((COMP_CWORD == place)) || [[ $takes == optional ]] || words=''
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    if [[ -n $keys && -n $cur ]]; then
        COMPREPLY+=($(compgen -S = -W "$keys" -- "$cur"))
        ((${#COMPREPLY[@]} > 0)) || return
        compopt -o nospace 2>/dev/null
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -o default -F _windlass windlass
)bash";

std::string name_in_bash(const std::string& flag) {
    std::string name = flag.substr(flag.find_first_not_of('-'));
    std::ranges::replace(name, '-', '_');
    return name;
}

std::string_view word_of(FlagValue value) {
    if (value == FlagValue::number) return "number";
    if (value == FlagValue::optional) return "optional";
    return value == FlagValue::text ? "text" : "equals";
}

// "    NAME) takes=text values='a b' ;;"
std::string case_line(const std::string& name, FlagValue value, const std::vector<std::string>& values) {
    const std::string listed =
        values.empty() ? "" : fmt::format(" values={}", single_quoted(fmt::format("{}", fmt::join(values, " "))));
    return fmt::format("    {}) takes={}{} ;;\n", name, word_of(value), listed);
}

std::string verb_case(const VerbOutline& verb) {
    std::vector<std::string> flags, words;
    std::vector<std::string_view> keys;
    for (const FlagOutline& flag : verb.flags) flags.insert(flags.end(), flag.names.begin(), flag.names.end());
    for (const FlagOutline& word : verb.words) words.insert(words.end(), word.values.begin(), word.values.end());
    for (const ConfigKey* const key : verb.keys) keys.push_back(key->name);
    return fmt::format("    {})\n        flags='{}'\n        words='{}'\n        keys='{}'{} ;;\n",
                       single_quoted(verb.name), fmt::join(flags, " "), fmt::join(words, " "), fmt::join(keys, " "),
                       verb.has_verbs ? " has_verbs=1" : "");
}

}  // namespace

std::string bash_completion(const Outline& outline) {
    std::vector<std::string> outer;
    std::string verbs, flags;
    std::set<const ConfigKey*> keys;
    for (const VerbOutline& verb : outline.verbs) {
        if (verb.name.find(' ') == std::string::npos) outer.push_back(verb.name);
        verbs += verb_case(verb);
        for (const FlagOutline& flag : verb.flags)
            for (const std::string& name : flag.names)
                flags += case_line(fmt::format("'{}:{}'", verb.name, name_in_bash(name)), flag.value, flag.values);
        keys.insert(verb.keys.begin(), verb.keys.end());
    }
    for (const ConfigKey& key : config_keys())
        if (keys.contains(&key))
            flags += case_line(fmt::format("*:{}", key.name), flag_value_of_key(key), values_of_key(key));
    return fmt::format(
        "{}_windlass_verbs='{}'\n_windlass_topics='{}'\n_windlass_of_verb() {{\n    case $1 in\n{}    esac\n}}\n"
        "_windlass_of_flag() {{\n    case $1 in\n{}    esac\n}}\n{}",
        kBashHead, fmt::join(outer, " "), fmt::join(outline.topics, " "), verbs, flags, kBashBody);
}

}  // namespace windlass
