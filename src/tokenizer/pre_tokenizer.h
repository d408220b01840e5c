// pre_tokenizer.h: cuts a normalised text into the pieces that merges may not cross. Immutable and thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tokenizer/pattern.h"

namespace windlass {

// What becomes of the matches of a Split (Hugging Face's SplitDelimiterBehavior).
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct SplitStep {
    Pattern pattern;
    SplitBehavior behavior = SplitBehavior::isolated;
    bool invert = false;  // what lies between the matches counts as the match
};
// Spells the bytes of each piece in the byte alphabet, after an optional space and GPT-2's split.
struct ByteLevelStep {
    bool add_prefix_space = false;
    bool use_regex = true;
    Pattern pattern;  // GPT-2's
};
enum class PrependScheme { never, first, always };
struct MetaspaceStep {
    std::string mark;  // written in place of a space
    PrependScheme prepend = PrependScheme::always;
    bool split = true;
};
struct DigitsStep {
    bool individual = false;
};
using PreTokenizerStep = std::variant<SplitStep, ByteLevelStep, MetaspaceStep, DigitsStep>;

// A text and the pieces into which it is cut: rising spans, with gaps where something was removed.
struct Pieces {
    std::string text;
    std::vector<Span> spans;
    bool starts_input = false;  // the text begins where the whole input begins
};

class PreTokenizer {
  public:
    PreTokenizer() = default;
    explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}
    // Pieces of valid UTF-8; none is empty.
    Pieces cut(std::string text, bool starts_input) const;
    const std::vector<PreTokenizerStep>& steps() const { return steps_; }

  private:
    std::vector<PreTokenizerStep> steps_;
};

// GPT-2's expression, the one ByteLevel uses.
extern const std::string_view kGpt2Split;

// The parts of a text of this many bytes after a split at `matches` (rising, not overlapping).
std::vector<Span> split_at(size_t bytes, const std::vector<Span>& matches, SplitBehavior behavior, bool invert);

}  // namespace windlass
