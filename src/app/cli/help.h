// help.h: what --help and `windlass help` print.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/embedded_text.h"
#include "base/error.h"

namespace CLI {
class App;
}

namespace windlass {

class VerbOutput;
struct MarkdownStyle;

// The pages of docs/guide, which cmake/embedded_texts.cmake compiles in: the topics of `windlass help`.
std::span<const EmbeddedText> guide_texts();
// By its name, or the name of its file; else null.
const EmbeddedText* find_topic(std::string_view name);
// Names that `windlass help` takes besides verbs: topics that are no verbs, and "topics".
std::vector<std::string> names_of_topics();

// Of the whole program; with `whole`, every setting too.
std::string program_help(bool whole, int columns);
// Of one verb: its flags and the settings that matter most; with `whole`, all settings that it reads.
std::string verb_help(const CLI::App& verb, bool whole, int columns);
// Every topic, with its first sentence.
std::string topics_help(int columns);
// The page, and which other topics it names.
std::string topic_help(const EmbeddedText& topic, const MarkdownStyle& style);

// `windlass help WORDS`: the help of a verb, the man page of one, or a page of the guide. Throws UserError(usage) for
// any other name.
ExitCode run_help(const CLI::App& app, const std::vector<std::string>& words, VerbOutput& out);

}  // namespace windlass
