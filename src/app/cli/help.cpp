#include "app/cli/help.h"

#include <CLI/CLI.hpp>
#include <set>

#include "app/cli/outline.h"
#include "app/cli/verb_texts.h"
#include "base/error.h"
#include "base/markdown.h"
#include "config/config.h"
#include "config/config_help.h"

namespace windlass {
namespace {

constexpr size_t kFlagIndent = 26, kVerbIndent = 13, kTopicIndent = 20;
constexpr int kHelpColumnsLeast = 60, kHelpColumnsMost = 100;

constexpr std::string_view kPageSuffix = ".md";  // as users name a page that has the name of a verb

size_t help_width(int columns) {
    return static_cast<size_t>(std::clamp(columns, kHelpColumnsLeast, kHelpColumnsMost));
}

// A head and a text in a column of its own, which begins at `indent`: on the line after a head that reaches into it.
std::string hung(std::string head, std::string_view text, size_t indent, size_t width) {
    const bool has_room = head.size() < indent || head.empty() || head.ends_with(' ');
    std::string made = has_room ? fmt::format("{:<{}}", head, indent) : fmt::format("{}\n{:<{}}", head, "", indent);
    const std::vector<std::string> lines = wrapped(text, width - indent);
    return made + fmt::format("{}\n", fmt::join(lines, fmt::format("\n{:<{}}", "", indent)));
}

std::string paragraphs(std::string_view text, size_t width) {
    std::string made;
    while (!text.empty()) {
        const size_t end = text.find('\n');
        made += hung("", text.substr(0, end), 0, width);
        text = end == std::string_view::npos ? "" : text.substr(end + 1);
    }
    return made;
}

// `seen`: flags that the verbs within a verb share are named once.
std::string flags_text(const CLI::App& verb, size_t width, std::set<std::string>& seen) {
    std::string text;
    for (const CLI::Option* option : verb.get_options()) {
        if (option->get_group().empty()) continue;  // taken, and not spoken of
        if (!seen.insert(flag_label(*option)).second) continue;
        const std::string required = option->get_required() && !option->get_positional() ? " (required)" : "";
        text += hung("  " + flag_label(*option), option->get_description() + required, kFlagIndent, width);
    }
    return text;
}

}  // namespace

std::string program_help(bool whole, int columns) {
    const size_t width = help_width(columns);
    std::string text = paragraphs(kProgramSentence, width) + "\nUsage: windlass VERB [flags]\n\nExamples:\n";
    text += std::string(kProgramExamples) + "\nVerbs:\n";
    for (const VerbText& verb : verb_texts())
        text += hung(fmt::format("  {}", verb.verb), verb.sentence, kVerbIndent, width);
    text += "\n" + paragraphs(
                       "A model is a folder, or the id that it has in the Hugging Face cache, such as "
                       "Qwen/Qwen3-0.6B.\nwindlass help VERB, or VERB --help, says what a verb takes; VERB --help-all "
                       "lists every setting that it reads; help --man VERB prints a page of man(1).",
                       width);
    text += "\n" + paragraphs("windlass help topics lists the pages of the guide; help gpu prints one of them.", width);
    text += "\n" + paragraphs(kExitCodes, width);
    return whole ? text + config_help(columns) : text;
}

std::string verb_help(const CLI::App& verb, bool whole, int columns) {
    const size_t width = help_width(columns);
    const VerbText& about = text_of_verb(verb.get_name());
    std::string text = paragraphs(about.sentence, width);
    if (!about.more.empty()) text += paragraphs(about.more, width);
    text += "\n" + hung(fmt::format("Usage: windlass {} ", about.verb), about.usage,
                        std::string("Usage: windlass ").size() + about.verb.size() + 1, width);
    if (!about.examples.empty()) text += fmt::format("\nExamples:\n{}", about.examples);
    text += "\nFlags:\n";
    const std::vector<const CLI::App*> inner = verb.get_subcommands([](const CLI::App*) { return true; });
    std::set<std::string> seen;
    for (const CLI::App* each : inner) text += flags_text(*each, width, seen);
    if (inner.empty()) text += flags_text(verb, width, seen);
    text += whole ? whole_config_help(about.verb, columns) : brief_config_help(about.verb, columns);
    if (!about.notes.empty()) text += "\n" + paragraphs(about.notes, width);
    if (find_topic(about.verb) != nullptr)
        text += fmt::format("\nThe guide has a page of this name: windlass help {}.md\n", about.verb);
    return text;
}

const EmbeddedText* find_topic(std::string_view name) {
    if (name.ends_with(kPageSuffix)) name.remove_suffix(kPageSuffix.size());
    const auto found = std::ranges::find(guide_texts(), name, &EmbeddedText::name);
    return found == guide_texts().end() ? nullptr : &*found;
}

std::vector<std::string> names_of_topics() {
    std::vector<std::string> names = {"topics"};
    for (const EmbeddedText& topic : guide_texts())
        if (std::ranges::find(verb_texts(), topic.name, &VerbText::verb) == verb_texts().end())
            names.emplace_back(topic.name);
    return names;
}

std::string topics_help(int columns) {
    const size_t width = help_width(columns);
    std::string text = paragraphs("windlass help TOPIC prints a page of the guide:", width) + "\n";
    for (const EmbeddedText& topic : guide_texts()) {
        const bool is_verb = std::ranges::find(verb_texts(), topic.name, &VerbText::verb) != verb_texts().end();
        text += hung(fmt::format("  {}{}", topic.name, is_verb ? kPageSuffix : ""), first_sentence(topic.text),
                     kTopicIndent, width);
    }
    return text;
}

std::string topic_help(const EmbeddedText& topic, const MarkdownStyle& style) {
    std::string text = render_markdown(topic.text, style), other;
    for (const std::string& target : link_targets(topic.text))
        if (const EmbeddedText* const page = find_topic(target); page != nullptr && page != &topic)
            other += fmt::format("{}{}", other.empty() ? "" : ", ", page->name);
    if (other.empty()) return text;
    return text + "\n" + hung("See also: ", other, std::string_view("See also: ").size(), style.width);
}

}  // namespace windlass
