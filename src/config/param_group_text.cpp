#include "config/param_group_text.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/nearest.h"
#include "base/printable.h"

namespace windlass {
namespace {

constexpr std::string_view kTrain = "train", kScale = "learning_rate_scale", kDecay = "weight_decay";
constexpr std::array kSettings = {kTrain, kScale, kDecay};
constexpr std::string_view kBlanks = " \t\r\n";

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words;
    for (size_t begin = text.find_first_not_of(kBlanks); begin != std::string_view::npos;) {
        const size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
        words.push_back(text.substr(begin, end - begin));
        begin = text.find_first_not_of(kBlanks, end);
    }
    return words;
}

std::string read_number(std::string_view name, std::string_view text, double most, double& into) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
    if (error != std::errc() || end != text.data() + text.size() || !(into >= 0 && into <= most))
        return fmt::format("{} is \"{}\", expected a number from 0 to {}", name, excerpt(text), most);
    return "";
}

std::string read_setting(std::string_view name, std::string_view value, ParamGroup& group) {
    if (name == kScale) return read_number(name, value, kGroupRateMax, group.learning_rate_scale);
    if (name == kDecay) return read_number(name, value, kGroupDecayMax, group.weight_decay.emplace());
    if (name == kTrain) {
        group.train = value == "true";
        return value == "true" || value == "false"
                   ? ""
                   : fmt::format("train is \"{}\", expected true or false", excerpt(value));
    }
    const std::string_view near = nearest_name(name, kSettings);
    return near.empty() ? fmt::format("a group has no \"{}\", only {}", excerpt(name), fmt::join(kSettings, ", "))
                        : fmt::format("a group has no \"{}\". Did you mean \"{}\"?", excerpt(name), near);
}

std::string check_match(std::string_view match) {
    if (match.size() <= kGroupMatchMax) return "";
    return fmt::format("a pattern of {} characters, at most {} are read", match.size(), kGroupMatchMax);
}

}  // namespace

std::string read_param_group(std::string_view text, ParamGroup& group) {
    const std::vector<std::string_view> words = words_of(text);
    if (words.empty()) return "a group begins with a pattern of names. Try: \"*norm* weight_decay=0\"";
    group = {.match = std::string(words[0])};
    if (const std::string problem = check_match(words[0]); !problem.empty()) return problem;
    std::vector<std::string_view> seen;
    for (size_t index = 1; index < words.size(); ++index) {
        const size_t equals = words[index].find('=');
        const std::string_view name = words[index].substr(0, equals);
        if (equals == std::string_view::npos)
            return fmt::format("\"{}\" sets nothing. Try: \"{} train=false\"", excerpt(words[index]),
                               excerpt(words[0]));
        if (std::find(seen.begin(), seen.end(), name) != seen.end())
            return fmt::format("{} is set twice for \"{}\"", excerpt(name), excerpt(words[0]));
        seen.push_back(name);
        const std::string problem = read_setting(name, words[index].substr(equals + 1), group);
        if (!problem.empty()) return fmt::format("\"{}\": {}", excerpt(words[0]), problem);
    }
    return "";
}

std::string param_group_text(const ParamGroup& group) {
    std::string text = group.match;
    if (!group.train) return text + " train=false";  // nothing else has a meaning then
    if (group.learning_rate_scale != 1) text += fmt::format(" {}={}", kScale, group.learning_rate_scale);
    if (group.weight_decay) text += fmt::format(" {}={}", kDecay, *group.weight_decay);
    return text;
}

std::vector<std::string> param_group_texts(const TrainedModel& model) {
    std::vector<std::string> texts;
    for (const ParamGroup& group : model.groups) texts.push_back(param_group_text(group));
    return texts;
}

std::string param_group_line(const std::vector<std::pair<std::string, std::string>>& members, std::string_view where) {
    std::string match, settings;
    for (const auto& [name, value] : members) {
        if (value.empty() || value.find_first_of(kBlanks) != std::string::npos)
            throw UserError(ExitCode::usage, where, "\"{}\" of a group is \"{}\", expected one word", name, value);
        if (name == "match")
            match = value;
        else
            settings += fmt::format(" {}={}", name, value);
    }
    if (match.empty())
        throw UserError(ExitCode::usage, where, "a group has no \"match\": the names that it is about")
            .hint("{match: \"*norm*\", weight_decay: 0}");
    return match + settings;
}

std::vector<ParamGroup> param_groups_of(const Config& config) {
    std::vector<ParamGroup> groups;
    for (const std::string& match : config.freeze) groups.push_back({.match = match, .train = false});
    for (const std::string& text : config.param_groups) {
        const std::string problem = read_param_group(text, groups.emplace_back());
        WINDLASS_CHECK(problem.empty(), "param_groups were not checked: {}", problem);
    }
    return groups;
}

std::vector<ParamGroup> param_groups_of(std::span<const std::string> texts, std::string_view where) {
    if (texts.size() > kParamGroupsMax)
        throw UserError(ExitCode::storage, where, "has {} param_groups, expected {} at most", texts.size(),
                        kParamGroupsMax);
    std::vector<ParamGroup> groups;
    for (const std::string& text : texts) {
        const std::string problem = read_param_group(text, groups.emplace_back());
        if (!problem.empty()) throw UserError(ExitCode::storage, where, "its param_groups cannot be read: {}", problem);
    }
    return groups;
}

void check_param_groups(const Config& config, std::vector<std::string>& problems) {
    for (const std::string& match : config.freeze) {
        if (words_of(match).size() != 1 || words_of(match)[0] != match)
            problems.push_back(
                fmt::format("freeze: \"{}\" is not a pattern of names. Try: freeze: [\"*embed*\"]", excerpt(match)));
        else if (const std::string problem = check_match(match); !problem.empty())
            problems.push_back(fmt::format("freeze: {}", problem));
    }
    for (const std::string& text : config.param_groups) {
        ParamGroup group;
        if (const std::string problem = read_param_group(text, group); !problem.empty())
            problems.push_back(fmt::format("param_groups: {}", problem));
    }
    if (config.freeze.size() + config.param_groups.size() > kParamGroupsMax)
        problems.push_back(fmt::format("freeze and param_groups name {} groups, at most {} are supported",
                                       config.freeze.size() + config.param_groups.size(), kParamGroupsMax));
}

}  // namespace windlass
