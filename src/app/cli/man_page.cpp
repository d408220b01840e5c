// Pages of man(1), in the macros of man(7). They have no date, so that two builds make the same.
#include <fmt/ranges.h>

#include "app/cli/help.h"
#include "app/cli/outline.h"
#include "app/cli/verb_texts.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/error.h"
#include "base/markdown.h"
#include "config/config_help.h"
#include "config/config_keys.h"

namespace windlass {
namespace {

// What troff would read as its own: dashes of flags stay dashes that can be copied, and no line is a request.
std::string roff(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        if ((c == '.' || c == '\'') && (escaped.empty() || escaped.back() == '\n')) escaped += "\\&";
        if (c == '\\')
            escaped += "\\e";
        else if (c == '-')
            escaped += "\\-";
        else if (c == '\'')
            escaped += "\\(aq";
        else if (c == '`')
            escaped += "\\(ga";
        else if (c == '^')
            escaped += "\\(ha";
        else if (c == '~')
            escaped += "\\(ti";
        else
            escaped += c;
    }
    return escaped;
}

std::string tagged(std::string_view tag, std::string_view text) {
    return fmt::format(".TP\n\\fB{}\\fP\n{}\n", roff(tag), roff(text));
}

std::string roff_paragraphs(std::string_view text) {
    std::string made;
    while (!text.empty()) {
        const size_t end = text.find('\n');
        made += fmt::format(".PP\n{}\n", roff(text.substr(0, end)));
        text = end == std::string_view::npos ? "" : text.substr(end + 1);
    }
    return made;
}

std::string examples_section(std::string_view examples) {
    return examples.empty() ? "" : fmt::format(".SH EXAMPLES\n.nf\n{}.fi\n", roff(examples));
}

// A page names itself by a phrase: "says whether a run fits".
std::string head_of(const std::string& name, std::string_view sentence) {
    std::string phrase(sentence.substr(0, sentence.size() - 1));
    phrase[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(phrase[0])));
    std::string title = name;
    for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return fmt::format(".TH \"{}\" 1 \"\" \"windlass {}\" \"Windlass\"\n.nh\n.ad l\n.SH NAME\n{} \\- {}\n", roff(title),
                       WINDLASS_VERSION, roff(name), roff(phrase));
}

std::string settings_section(const VerbOutline& verb) {
    if (verb.keys.empty()) return "";
    std::string made =
        ".SH SETTINGS\nEach is a flag here, key=value, or a line of run.yaml with underscores for dashes. "
        "Defaults are in brackets.\n";
    std::string_view group;
    for (const ConfigKey* const key : verb.keys) {
        if (key->group != group) made += fmt::format(".SS \"{}\"\n", roff(group = key->group));
        made += tagged(config_flag(key->name), config_key_text(*key));
    }
    return made;
}

std::string verb_page(const std::string& name, const Outline& outline) {
    const VerbText& text = text_of_verb(name);
    std::string page = head_of("windlass-" + name, text.sentence);
    page += fmt::format(".SH SYNOPSIS\n\\fBwindlass {}\\fP {}\n.SH DESCRIPTION\n{}{}", roff(name), roff(text.usage),
                        roff_paragraphs(text.sentence), roff_paragraphs(text.more));
    page += roff_paragraphs(text.notes);
    for (const VerbOutline& verb : outline.verbs) {
        if (verb.name != name && !verb.name.starts_with(name + " ")) continue;
        if (verb.has_verbs) continue;
        page += verb.name == name ? ".SH FLAGS\n" : fmt::format(".SH FLAGS OF {}\n", roff(verb.name));
        for (const FlagOutline& word : verb.words)
            if (!word.text.empty()) page += tagged(word.label, word.text);
        for (const FlagOutline& flag : verb.flags) page += tagged(flag.label, flag.text);
        page += settings_section(verb);
    }
    return page + examples_section(text.examples) + ".SH SEE ALSO\n.BR windlass (1)\n";
}

std::string program_page() {
    std::string page = head_of("windlass", kProgramSentence);
    page += fmt::format(".SH SYNOPSIS\n\\fBwindlass\\fP VERB [flags]\n.SH DESCRIPTION\n{}.SH VERBS\n",
                        roff_paragraphs(kProgramSentence));
    for (const VerbText& verb : verb_texts()) page += tagged(verb.verb, verb.sentence);
    page += ".SH TOPICS\nThe guide is in the program: \\fBwindlass help\\fP TOPIC prints a page of it.\n";
    for (const EmbeddedText& topic : guide_texts()) page += tagged(topic.name, first_sentence(topic.text));
    page += examples_section(kProgramExamples) + fmt::format(".SH EXIT STATUS\n{}\n", roff(kExitCodes));
    page += ".SH SEE ALSO\n";
    for (const VerbText& verb : verb_texts())
        page += fmt::format(".BR windlass\\-{} (1){}\n", verb.verb, &verb == &verb_texts().back() ? "" : ",");
    return page;
}

}  // namespace

ExitCode run_man_page(const std::string& verb, const Outline& outline) {
    print_result(verb.empty() ? program_page() : verb_page(verb, outline));
    return ExitCode::ok;
}

}  // namespace windlass
