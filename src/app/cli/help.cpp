#include "app/cli/help.h"

#include <CLI/CLI.hpp>
#include <set>

#include "app/cli/outline.h"
#include "app/cli/verb_texts.h"
#include "base/error.h"
#include "config/config.h"
#include "config/config_help.h"

namespace windlass {
namespace {

constexpr size_t kFlagIndent = 26, kVerbIndent = 13;
constexpr int kHelpColumnsLeast = 60, kHelpColumnsMost = 100;

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
    return text;
}

}  // namespace windlass
