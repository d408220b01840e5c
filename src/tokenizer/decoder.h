// decoder.h: from the spellings of tokens back to text. Immutable and thread-safe.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "tokenizer/pattern.h"

namespace windlass {

struct ByteLevelDecode {};     // the byte alphabet back to bytes
struct ByteFallbackDecode {};  // runs of <0xNN> to the characters that their bytes spell, U+FFFD each where they do not
struct FuseDecode {};          // all tokens become one
struct ReplaceDecode {
    Pattern pattern;
    std::string replacement;
};
struct StripDecode {
    std::string content;  // one character
    int start = 0;        // taken off the front of each token, at most this often
    int stop = 0;         // and off its end
};
struct MetaspaceDecode {
    std::string mark;
    bool drop_first = true;  // the marks of the first token are no spaces
};
using DecodeStep =
    std::variant<ByteLevelDecode, ByteFallbackDecode, FuseDecode, ReplaceDecode, StripDecode, MetaspaceDecode>;

class Decoder {
  public:
    Decoder() = default;
    explicit Decoder(std::vector<DecodeStep> steps) : steps_(std::move(steps)), exists_(true) {}
    // Valid UTF-8 in and out. A tokenizer without a decoder puts spaces between its tokens.
    std::string decode(std::vector<std::string> tokens) const;

  private:
    std::vector<DecodeStep> steps_;
    bool exists_ = false;
};

}  // namespace windlass
