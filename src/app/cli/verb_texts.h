// verb_texts.h: what the command line says about itself and its verbs.
#pragma once

#include <span>
#include <string_view>

namespace windlass {

struct VerbText {
    std::string_view verb;           // "train", "config from"
    std::string_view sentence;       // what it does: a whole sentence
    std::string_view usage;          // what follows "windlass VERB"
    std::string_view more = "";      // paragraphs after it, one a line
    std::string_view examples = "";  // lines of at most 78 characters
    std::string_view notes = "";     // paragraphs at the end, one a line
};

std::span<const VerbText> verb_texts();
const VerbText& text_of_verb(std::string_view verb);

extern const std::string_view kProgramSentence, kProgramExamples, kExitCodes;

}  // namespace windlass
