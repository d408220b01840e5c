// The verb `help`: which of the texts of help.h is printed.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <optional>

#include "app/cli/flags.h"
#include "app/cli/help.h"
#include "app/cli/outline.h"
#include "app/cli/output.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "base/markdown.h"
#include "train/progress.h"

namespace windlass {
namespace {

constexpr std::string_view kTopics = "topics";
constexpr int kNarrowestPage = 40, kWidestPage = 100;

struct HelpWords {
    std::vector<std::string> names;
    bool man = false, whole = false;
};

HelpWords help_words_of(const std::vector<std::string>& words) {
    HelpWords found;
    for (const std::string& word : words) {
        if (word == "--man")
            found.man = true;
        else if (word == "--help-all")
            found.whole = true;
        else if (!word.starts_with('-'))
            found.names.push_back(word);
        else if (word != "--help" && word != "-h" && word != "-q" && word != "--quiet" && !word.starts_with("--json"))
            throw UserError(ExitCode::usage, word, "windlass help has no such flag").hint("windlass help");
    }
    return found;
}

const CLI::App* find_app(const CLI::App& app, const std::string& name) {
    const auto found = app.get_subcommands([&](const CLI::App* verb) { return verb->get_name() == name; });
    return found.empty() ? nullptr : found.front();
}

void check_names(const CLI::App& app, const HelpWords& words) {
    const std::vector<std::string>& names = words.names;
    if (names.empty()) return;
    const CLI::App* const verb = find_app(app, names[0]);
    const bool is_inner = names.size() == 2 && verb != nullptr && find_app(*verb, names[1]) != nullptr;
    if (names.size() > 1 && (words.man || !is_inner))
        throw UserError(ExitCode::usage, names[1], "help is of one {}", words.man ? "verb" : "verb or topic")
            .hint(fmt::format("windlass help {}{}", words.man ? "--man " : "", names[0]));
    if (words.man || (names[0] != kTopics && find_topic(names[0]) == nullptr))
        check_verb(app, names[0], words.man ? std::vector<std::string>() : names_of_topics());
}

Json topics_json() {
    Json topics = Json::array();
    for (const EmbeddedText& topic : guide_texts())
        topics.push_back({{"name", topic.name}, {"sentence", first_sentence(topic.text)}});
    return topics;
}

}  // namespace

ExitCode run_help(const CLI::App& app, const std::vector<std::string>& words, VerbOutput& out) {
    const HelpWords found = help_words_of(words);
    check_names(app, found);
    const std::string name = found.names.empty() ? "" : found.names[0];
    if (found.man) return run_man_page(name, outline_of(app));
    const TerminalStyle terminal = out.is_text() ? terminal_style(STDOUT_FILENO) : TerminalStyle();
    const auto width = static_cast<size_t>(std::clamp(terminal.columns, kNarrowestPage, kWidestPage));
    const CLI::App* const verb = find_app(app, name);
    std::string text;
    if (name.empty())
        text = program_help(found.whole, terminal.columns);
    else if (verb != nullptr)
        text = verb_help(*verb, found.whole, terminal.columns);
    else if (name == kTopics)
        text = topics_help(terminal.columns);
    else
        text = topic_help(*find_topic(name), {.width = width, .is_styled = terminal.color});
    if (out.is_text()) return print_colored(text), ExitCode::ok;  // no text of others is in it
    Json result = {{"topic", name}, {"text", text}};
    if (name == kTopics) result["topics"] = topics_json();
    out.result(result);
    return ExitCode::ok;
}

}  // namespace windlass
